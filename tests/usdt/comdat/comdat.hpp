// Functions that every file which includes this has a copy of: the linker keeps one copy of each, made with
// the options of one file.
#pragma once

#include <cstdio>
#include <stdexcept>

#include "comdat.h"

#ifdef NO_LABELS
#define HERE(name) ((void)0)
#else
#define HERE(name) __asm__ volatile("here_" #name "_%=:" : :)
#endif

struct Counts {
  long fires = 0;
};
extern Counts counts;
int use(int n);

inline int inlined(int n) {
  counts.fires += 2;
  COMDAT_INLINED(n);
  HERE(comdat_inlined);
  const int used = use(n);
  COMDAT_INLINED(-n);
  HERE(comdat_inlined);
  return used;
}

template <class Number>
Number templated(Number n) {
  ++counts.fires;
  COMDAT_TEMPLATED(static_cast<int>(n), static_cast<long>(n) * 2);
  HERE(comdat_templated);
  return n * 2;
}

struct Base {
  explicit Base(int given) : number(given) {
    ++counts.fires;
    COMDAT_CONSTRUCTED(number);
    HERE(comdat_constructed);
  }
  virtual ~Base() {
    ++counts.fires;
    COMDAT_DESTROYED(number);
    HERE(comdat_destroyed);
  }
  int number;
};

struct Derived : virtual Base {
  explicit Derived(int n) : Base(n) {}
};

inline int with_lambda(int n) {
  const auto fire = [](int m) {
    ++counts.fires;
    COMDAT_LAMBDA(m);
    HERE(comdat_lambda);
    return m;
  };
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += fire(i);
  return sum;
}

inline int throws(int n) {
  ++counts.fires;
  COMDAT_THROWN(n);
  HERE(comdat_thrown);
  if (n > 1) throw std::runtime_error("more than one");
  return n;
}

inline int catches(int n) {
  try {
    return throws(n);
  } catch (const std::exception&) {
    return -n;
  }
}

inline int everything(int n) {
  const Base base(n);
  const Derived derived(n + 1);
  return inlined(n) + inlined(n + 200) + templated(n) +
         static_cast<int>(templated(static_cast<long>(n))) + base.number + derived.number +
         with_lambda(n) + catches(n) + catches(1);
}
