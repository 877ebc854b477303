#pragma once

// Everything: distributed locks on Redis.
#include "redlock/client.hpp"
#include "redlock/connection.hpp"
#include "redlock/error.hpp"
#include "redlock/lock.hpp"
#include "redlock/mutex.hpp"
#include "redlock/names.hpp"
#include "redlock/observer.hpp"
#include "redlock/options.hpp"
#include "redlock/quorum.hpp"
#include "redlock/reply.hpp"
#include "redlock/semaphore.hpp"
#include "redlock/shared_mutex.hpp"
#include "redlock/token.hpp"
#include "redlock/transport.hpp"
#include "redlock/uri.hpp"
#include "redlock/version.hpp"
