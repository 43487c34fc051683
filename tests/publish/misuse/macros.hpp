// Names that programs and the headers of other libraries define as macros.
#define VITRINE_FIBERS  // its attributes are used, too
// Attributes: BSD's, the kernel's, and those of many C libraries.
#define always_inline __attribute__((__always_inline__)) inline
#define noinline __attribute__((__noinline__))
#define aligned(n) __attribute__((__aligned__(n)))
#define packed __attribute__((__packed__))
#define used __attribute__((__used__))
#define vector_size(n) __attribute__((__vector_size__(n)))
#define visibility(v) __attribute__((__visibility__(v)))
#define weak __attribute__((__weak__))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
// Compilers of segmented memory, still in headers of compression and image libraries.
#define far
#define huge
#define near
// <X11/Xlib.h>
#define Always 2
#define Bool int
#define False 0
#define None 0L
#define Status int
#define Success 0
#define True 1
// Qt
#define emit
#define foreach for
#define forever for (;;)
#define signals public
#define slots
