import type { ErrorCatalog } from "../base/errors.ts";

/** Errors of pull. */
export const PULL_ERRORS = {
  "integrity/pull.page": {
    what: "A page of the file arrives with other bytes than the file's own digest says, from every mirror.",
    why: "Every page is compared as it arrives and fetched again from another mirror before pull gives up.",
    fix: "Name another mirror with --mirror, or tell the people who run the server that its copy is damaged.",
  },
  "integrity/pull.sha256": {
    what: "A file that arrived whole does not have the SHA-256 that the set's index states for it.",
    why: "The server's copy is damaged or belongs to another version of the set.",
    fix: "Name another mirror with --mirror, or get the index again.",
  },
  "integrity/pull.crc32": {
    what: "A file that arrived whole does not have the CRC-32 that the set's index states for it.",
    why: "The server's copy is damaged, or it is a part of another model or of another version of this one.",
    fix: "Name another mirror with --mirror, or get the index again.",
  },
  "integrity/pull.size": {
    what: "The server's file has another length than the set's index states.",
    why: "The copy is cut off or belongs to another version of the set.",
    fix: "Name another mirror with --mirror, or get the index again.",
  },
  "integrity/pull.content": {
    what: "An AERO file arrived whole, but its own digests do not hold.",
    why: "The server's copy is damaged outside of the pages that are compared on arrival.",
    fix: "Name another mirror with --mirror.",
  },
  "usage/pull.name": {
    what: "The address to pull from does not end with a file name.",
    why: "A web server has no listing that could be trusted to tell what belongs to a model.",
    fix: "Name the file, or the index of the set: model.aeroset.json, model.safetensors.index.json.",
  },
  "usage/pull.collision": {
    what: "Two files of the set have the same name, or names that differ in case or Unicode form only, or one is a folder of the other; or the set says two things of one file.",
    why: "Both would be written to one file, here or on another system.",
    fix: "Pull the files one by one into folders of their own.",
  },
  "source/pull.name": {
    what: "The index of a set names itself, or a file that no set of its format has, is hidden, lies in a folder that programs act on, or is called like a work file of pull.",
    why: "An index comes from a server. It must not decide what a shell, an interpreter or another program reads later.",
    fix: "Do not trust the set. If it is yours, give its parts the extension of their format, or pull a single file by its own address.",
  },
  "limit/pull.name-bytes": {
    what: "A file of the set has a name that is too long for file systems.",
    why: "They hold 255 bytes between two slashes; work files of pull need 20 of them.",
    fix: "Rename the file where it is published.",
  },
  "usage/pull.mirror": {
    what: "A mirror is not the http(s) address of a folder.",
    why: "The names of the files are appended to it.",
    fix: "Name the folder that holds the same files: --mirror https://host/folder/.",
  },
  "source/pull.locked": {
    what: "Another pull is writing to the same folder.",
    why: "Two writers would overwrite each other's unfinished files.",
    fix: "Wait until the other one has ended, or choose another folder.",
  },
  "source/pull.space": {
    what: "The file is longer than what the disk has room for.",
    why: "It is compared before anything is fetched. A server may also claim a length that no file has.",
    fix: "Make room or choose another folder; if the length makes no sense, do not trust the server.",
  },
  "source/pull.entry": {
    what: "A link, a hard link too, a folder or a file of another user is in the way of an unfinished file; or a folder is in the way of a file, of the lock or of the receipt.",
    why: "Unfinished files are only ever plain files in the folder itself, with no other name elsewhere, and no file takes the place of a folder. tare reports this before it fetches anything.",
    fix: "Remove what the error names.",
  },
} as const satisfies ErrorCatalog;

export const PUSH_ERRORS = {
  "usage/push-link": {
    what: "A file of the set that is to be uploaded is a link to a file elsewhere.",
    why: "What lies outside of the folder may not be meant for the store, and without it the set would not be whole.",
    fix: "Pass --follow-links, or put the file itself beside its index.",
  },
  "usage/push-remote": {
    what: "A file of the set that is to be uploaded is on a server, not beside its index.",
    why: "Only files of this machine are uploaded.",
    fix: "Get the whole set with `tare pull`, then push that copy.",
  },
} as const satisfies ErrorCatalog;

/** Errors of starting a server; later errors are in its replies. */
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
  "source/serve.states": {
    what: "A vault that is served was changed again and again while replies of its earlier states were under way.",
    why: "Each state that a reply still reads takes memory, so there is a limit; until some have ended, requests get 503.",
    fix: "Wait for the transfers to end, or start the server again.",
  },
  "usage/serve.directory": {
    what: "What should be served is neither a folder nor a vault.",
    why: "A server shows the files of one folder or of one vault, and nothing outside of it.",
    fix: "Name the folder that holds the file.",
  },
  "usage/serve.reach": {
    what: "A vault should be served beyond this machine, and nothing was said about who may read it.",
    why: "Everyone on the way of a request sees the name in its address, which keeps out the other users of this machine.",
    fix: "Pass --auth-file FILE with a user and a password, or --no-token to let everybody in.",
  },
  "usage/serve.auth-file": {
    what: "The file of --auth-file is not one line with a user and a password.",
    why: "Its line is what a client sends: the user, a colon, the password. Neither is empty or has control characters.",
    fix: "Write the line user:password, of at most 4096 bytes, to the file, and let others not read it.",
  },
} as const satisfies ErrorCatalog;
