#pragma once

// Everything: distributed locks on Redis.
#include "redlock/client.hpp"
#include "redlock/connection.hpp"
#include "redlock/error.hpp"
#include "redlock/lock.hpp"
#include "redlock/observer.hpp"
#include "redlock/options.hpp"
#include "redlock/quorum.hpp"
#include "redlock/reply.hpp"
#include "redlock/token.hpp"
#include "redlock/transport.hpp"
#include "redlock/uri.hpp"
#include "redlock/version.hpp"
