{
  "targets": [
    {
      "target_name": "netsweep",
      "sources": [
        "native/addon.cc",
        "native/bridge.cc",
        "native/channel.cc",
        "native/constants.cc",
        "native/environment.cc",
        "native/filter.cc",
        "native/lock.cc",
        "native/named.cc",
        "native/namespace.cc",
        "native/program.cc",
        "native/requests.cc",
        "native/socket.cc",
        "native/tc.cc"
      ],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": [
        "NAPI_VERSION=9",
        "NAPI_CPP_EXCEPTIONS",
        "NODE_ADDON_API_CPP_EXCEPTIONS_ALL",
        "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"
      ],
      "cflags": ["-Wall", "-Wextra"],
      "cflags!": ["-fno-exceptions"],
      "cflags_cc": ["-std=c++17"],
      "cflags_cc!": ["-fno-exceptions", "-fno-rtti"]
    }
  ]
}
