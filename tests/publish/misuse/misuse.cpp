// Each case is wrong in a way that the compiler must see. CASE 0, and those from 14 on, are the right way.
#include <customlabels.h>
#include <vitrine/sdt.h>

#include <vitrine/context.hpp>
#include <vitrine/coroutine.hpp>
#include <vitrine/fiber.hpp>
#include <vitrine/labels.hpp>

namespace labels = vitrine::labels;

const labels::Key tenant{"tenant"};

void use(const labels::Trace& trace, labels::Set set) {
#if CASE == 0 || CASE >= 14
  labels::Scope one{tenant, "acme"};
  labels::Scope several{{tenant, "acme"}, {tenant, "umbrella"}};
  labels::Scope traced{trace, {{tenant, "acme"}}};
  auto attached = labels::attach(set);
  labels::Trace made{labels::TraceId{}, labels::SpanId{}, 1};
  (void)made;
#elif CASE == 1  // a scope that ends at once
  labels::Scope(tenant, "acme");
#elif CASE == 2  // a key that would be interned each time
  labels::Scope scope{"tenant", "acme"};
#elif CASE == 3  // a scope that outlives its block
  auto* scope = new labels::Scope{tenant, "acme"};
#elif CASE == 4  // a scope in two places
  labels::Scope scope{tenant, "acme"};
  labels::Scope copy{scope};
#elif CASE == 5
  labels::Scope scope{tenant, "acme"};
  labels::Scope moved{std::move(scope)};
#elif CASE == 6   // no value at all
  labels::Scope scope{tenant, nullptr};
#elif CASE == 7   // the ids the wrong way round
  labels::Trace swapped{labels::SpanId{}, labels::TraceId{}, 1};
#elif CASE == 8   // a capture that nobody holds
  labels::capture();
#elif CASE == 9   // an attachment that ends at once
  labels::attach(set);
#elif CASE == 10  // a callable that nobody calls
  labels::bind([] {});
#elif CASE == 11  // a set is never edited
  *set.get(tenant)->data() = 'x';
#elif CASE == 12  // a null key
  labels::Key key{nullptr};
#elif CASE == 13  // a coroutine's labels belong to one coroutine
  labels::CarriedLabels carried;
  labels::CarriedLabels copy{carried};
#endif
  (void)trace;
  (void)set;
}
