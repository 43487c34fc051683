// Fires probes with values that point into temporaries, which live until the probe has fired. Says for
// each what it fired with. From C++14 on.
#include <vitrine/sdt.h>

#include <cstdio>
#include <string>

static std::string order;  // of evaluation

static std::string text(char letter) {
  order += letter;
  return std::string(100, letter);
}

template <class Text>
static void fire(const Text& suffix) {
  VITRINE_TYPED_PROBE(values, in_template, (c_string, (text('t') + suffix).c_str()));
}

// usage: temporaries FILE: says there what it fires with
int main(int argc, char** argv) {
  if (argc != 2 || std::freopen(argv[1], "w", stdout) == nullptr) return 2;
  for (const char letter : {'a', 'b'}) {
    const std::string whole(100, letter);
    std::printf("{\"probe\":\"values:pointers\",\"args\":[\"%s\",\"%s\",\"%s!\",100]}\n",
                whole.c_str(), whole.c_str(), whole.c_str());
    VITRINE_TYPED_PROBE(values, pointers, (c_string, text(letter).c_str()),
                        (data, text(letter).data(), text(letter).size()),
                        (view, text(letter) + "!"), (size, text(letter).size()));
    std::printf("{\"probe\":\"values:in_order\",\"args\":[1,2,3]}\n");
    order.clear();
    VITRINE_TYPED_PROBE(values, in_order, (first, text('1').size() / 100),
                        (second, text('2').size() / 50), (third, text('3').size() / 33));
    if (order != "123") return 3;
    std::printf("{\"probe\":\"values:in_template\",\"args\":[\"%s-suffix\"]}\n",
                std::string(100, 't').c_str());
    fire("-suffix");
  }
  return 0;
}
