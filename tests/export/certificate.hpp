// A certificate for tests of TLS.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "export/receiver.hpp"
#include "support/child.hpp"

namespace vitrine::test {

/// A certificate that signs itself, for localhost or other names.
struct Certificate {
  explicit Certificate(const Folder& folder,
                       const std::string& names = "DNS:localhost,IP:127.0.0.1",
                       const std::string& subject = "/CN=localhost")
      : file((folder / "cert.pem").string()), key((folder / "key.pem").string()) {
    const Outcome made = run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                              "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", subject,
                              "-addext", "subjectAltName=" + names, "-keyout", key, "-out", file});
    EXPECT_EQ(made.status, 0) << made.err;
  }
  std::string file, key;
};

}  // namespace vitrine::test
