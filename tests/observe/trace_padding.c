// A library whose thread-local variable takes the place of those of libraries after it.
__attribute__((tls_model("initial-exec"))) __thread char trace_padding[512];
