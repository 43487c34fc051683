# What src/publish/CMakeLists.txt does for libcustomlabels.so, for node-gyp: the publishing sources, found
# in this repository or, in the package, where `npm pack` put a copy of them.
{
  "variables": {
    "vitrine": "<!(if [ -d publisher ]; then echo publisher; else echo ../..; fi)",
  },
  "targets": [
    {
      "target_name": "customlabels",
      "sources": [
        "addon.cpp",
        # The C interface is for programs that link it.
        "<!@(ls <(vitrine)/src/publish/*.cpp <(vitrine)/src/publish/*/*.cpp | grep -v -e '/c_interface\\.cpp$' -e '/run_with\\.cpp$')",
      ],
      "include_dirs": [
        "<(vitrine)/include",
        "<(vitrine)/src",
        "<!(node -p \"require('node-addon-api').include_dir\")",
        "<!(node -p \"require('node-api-headers').include_dir\")",
      ],
      "defines": [
        "NAPI_VERSION=8",
        "NODE_ADDON_API_DISABLE_CPP_EXCEPTIONS",
        "VITRINE_PUBLISH_ABI=1",
        "VITRINE_PUBLISH_OTEL=1",
        "VITRINE_SDK_LANGUAGE=\"nodejs\"",
        "VITRINE_VERSION=\"<!(node -p \"require('./package.json').version\")\"",
      ],
      "cflags_cc": [
        "-std=c++17", "-Wall", "-Wextra", "-fno-exceptions",
        "-fvisibility=hidden", "-fvisibility-inlines-hidden",
        # Readers follow TLS descriptors.
        "-ftls-model=global-dynamic", "<!@(sh tls_flags.sh)",
      ],
      # Debian's node-gyp links its own libnode, which another Node.js would then load beside itself. What is
      # used of it is in the process already.
      "libraries!": ["-lnode"],
      # As libcustomlabels.so: threads hold on to its memory; its accesses are to its own variables.
      "ldflags": ["-Wl,-z,nodelete", "-Wl,-Bsymbolic"],
    },
  ],
}
