#include "certificates.hpp"

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "process.hpp"

namespace redlock::testing {

using namespace std::chrono_literals;

Certificates::Certificates()
    : config_{file("[req]\ndistinguished_name = name\n[name]\n")},  // nothing of the system's own configuration
      ca_{make("redlock test authority", "basicConstraints=critical,CA:TRUE", true)} {}

Certificates& Certificates::shared() {
  static Certificates all;
  return all;
}

Certificates::Pair Certificates::sign(const std::string& names, const std::string& common_name) {
  return make(common_name, names.empty() ? "basicConstraints=CA:FALSE" : "subjectAltName=" + names, false);
}

std::vector<std::string> Certificates::server_args(const Pair& pair) const {
  return {"--tls-cert-file",    pair.certificate,
          "--tls-key-file",     pair.key,
          "--tls-ca-cert-file", ca(),
          "--tls-auth-clients", "no",
          "--tls-replication",  "yes",
          "--tls-cluster",      "yes"};
}

std::string Certificates::file(const std::string& content) {
  auto path = new_path();
  std::ofstream{path} << content;
  return path;
}

Certificates::Pair Certificates::make(const std::string& common_name, const std::string& extension, bool is_authority) {
  Pair made{new_path(), new_path()};
  std::vector<std::string> command{"openssl",
                                   "req",
                                   "-config",
                                   config_,
                                   "-x509",
                                   "-newkey",
                                   "ec",
                                   "-pkeyopt",
                                   "ec_paramgen_curve:P-256",
                                   "-nodes",
                                   "-days",
                                   "2",
                                   "-subj",
                                   "/CN=" + common_name,
                                   "-addext",
                                   extension,
                                   "-keyout",
                                   made.key,
                                   "-out",
                                   made.certificate};
  if (!is_authority) command.insert(command.end(), {"-CA", ca_.certificate, "-CAkey", ca_.key});
  // What it says goes to stderr.
  std::string line = "exec 2>&1; exec \"$@\"";
  command.insert(command.begin(), {"sh", "-c", line, "sh"});
  auto process = Process::exec(command);
  if (process.wait(60s) != ExitStatus{true, 0, 0}) throw std::runtime_error{"openssl: " + process.output()};
  return made;
}

std::string Certificates::new_path() { return (folder_.path() / (std::to_string(++files_) + ".pem")).string(); }

}  // namespace redlock::testing
