import type { ErrorCatalog } from "../../../base/errors.ts";

/** Errors of starting a server; what goes wrong later is said in replies. */
export const SERVE_ERRORS = {
  "source/serve.port": {
    what: "The server cannot listen on that port.",
    why: "Another program has it, or ports below 1024 are kept for the system.",
    fix: "Choose another with --port N, or take any free one with --port 0.",
  },
  "usage/serve.host": {
    what: "The address to listen on is not one of this machine.",
    why: "A server listens on its own addresses only.",
    fix: "Leave out --host for this machine alone, or pass --host 0.0.0.0 for everybody on the network.",
  },
  "usage/serve.cors": {
    what: "What --cors got is neither an origin nor a star.",
    why: "An origin is a scheme, a host and a port, without a path: browsers compare it as a whole.",
    fix: "Pass it as the browser shows it: --cors https://viewer.example, or --cors '*' for every page.",
  },
  "usage/serve.directory": {
    what: "What should be served is not a folder.",
    why: "A server shows the files of one folder, and nothing outside of it.",
    fix: "Name the folder that holds the file.",
  },
} as const satisfies ErrorCatalog;
