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
    return {
        "usdt",
        "make static probes of a provider's definition",
        {"A provider is declared in a definition file, as DTrace has it: `provider shop { probe "
         "request__start(int id, const char *path); };`. Its header is made of that, the program "
         "is compiled with it, and the object step takes the calls out of the objects: what stays "
         "at a probe is a nop, and a table (DOF) in the file says where. vitrine probes lists "
         "them, vitrine trace fires on them."},
        {{"vitrine usdt header -s shop.d", "writes shop.h"},
         {"vitrine usdt link -s shop.d -o shop_probes.o main.o shop.o",
          "rewrites the objects, and writes the one to link with them"},
         {"vitrine usdt dump ./shop", "what the file then says of its probes"}},
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
