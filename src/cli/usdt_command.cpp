// vitrine usdt: making providers, and looking into what was made.
#include "cli/command.hpp"
#include "cli/exit_code.hpp"

namespace vitrine::cli {
namespace {

class UsdtCommand : public Command {
 public:
  UsdtCommand() {
    parts_.push_back(make_usdt_header_command());
    parts_.push_back(make_usdt_link_command());
    parts_.push_back(make_usdt_dump_command());
  }

  Manual manual() const override {
    return {"usdt",
            "process provider definitions into static probes",
            {"A definition file declares a provider, in DTrace's language: `provider shop { probe "
             "request__start(int id, const char *path); };`. vitrine usdt header generates a "
             "header from it, the program is compiled with the header, and the object step "
             "(vitrine usdt link) replaces the probe calls in the objects: a nop remains at each "
             "site, and a table (DOF) in the file lists the sites. vitrine probes lists the "
             "probes, vitrine trace traces them."},
            {{"vitrine usdt header -s shop.d", "writes shop.h"},
             {"vitrine usdt link -s shop.d -o shop_probes.o main.o shop.o",
              "rewrites the objects, and writes the probe object to link with them"},
             {"vitrine usdt dump ./shop", "what the file then contains about its probes"}},
            {"probes", "trace", "usdt-header", "usdt-link", "usdt-dump"}};
  }

  void define(CLI::App&) override {}
  Needs needs() const override { return {}; }
  int run() override { return exit_usage; }

  std::vector<Command*> parts() override {
    std::vector<Command*> out;
    for (const auto& part : parts_) out.push_back(part.get());
    return out;
  }

 private:
  std::vector<std::unique_ptr<Command>> parts_;
};

}  // namespace

std::unique_ptr<Command> make_usdt_command() {
  return std::make_unique<UsdtCommand>();
}

}  // namespace vitrine::cli
