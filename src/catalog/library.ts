import type { ErrorCatalog } from "../base/errors.ts";

/** Errors of calls to the library. */
export const LIBRARY_ERRORS = {
  "usage/unknown-option": {
    what: "A call of the library has an option that the function does not have.",
    why: "A mistyped option that is ignored looks like one that works.",
    fix: "The hint lists the options of the function, the nearest first.",
  },
  "usage/option-value": {
    what: "An option of a library call has a value of the wrong kind.",
    why: "Guessing what is meant could write something else than what was asked for.",
    fix: "Pass what the message says; undefined counts as not given.",
  },
  "usage/file-url": {
    what: "A `file:` URL names no path of this machine.",
    why: "It has another host, a query or a fragment, a slash that is encoded, or an escape that is none.",
    fix: "Write file:///PATH with its special characters escaped, pass the path itself, or what `pathToFileURL` makes of it.",
  },
  "usage/option-missing": {
    what: "A library call lacks an option that it needs here.",
    why: "Nothing else says it: a stream or a folder has no extension that names a format, for example.",
    fix: "Pass the option that the message names.",
  },
  "usage/input": {
    what: "The input of a library call is none of the kinds that can be read.",
    why: "Addresses, Blobs, bytes, handles, streams, async iterables, Sources and opened models can be read; in Node paths too.",
    fix: "Pass one of these.",
  },
  "usage/detached-bytes": {
    what: "Bytes that a program passed to the library are no longer in memory.",
    why: "Their ArrayBuffer was transferred, to a worker or a stream, which leaves nothing behind.",
    fix: "Pass a copy, made with slice() before the transfer.",
  },
  "source/caller": {
    what: "An object or a function that a program passed to the library failed.",
    why: "A Source, a Sink, a folder or a password function threw something; the message has its reason, `cause` what was thrown.",
    fix: "Look at the code of that object, and try again.",
  },
  "source/contract": {
    what: "A Source that a program brought gave something else than the bytes that it was asked for.",
    why: "A read must give exactly the bytes of its range, as a Uint8Array; a stream gives them in order.",
    fix: "Compare the Source with what the page of the library says of them.",
  },
  "usage/output": {
    what: "The output of a library call is none of the kinds that can be written here.",
    why: "Handles, WritableStreams, Sinks and folders can be written everywhere; paths only in Node.",
    fix: 'Pass one of these, or import from "tare/node" to write to paths.',
  },
  "usage/output-single": {
    what: "Several files would be written to a place that holds one.",
    why: "A stream, a file handle and a Sink have no second name.",
    fix: "Pass a folder, or choose a format and options that give one file.",
  },
  "limit/memory": {
    what: "A stream has more bytes than may be held in memory, or more is written into memory() than it may hold.",
    why: "A stream cannot be read by ranges or twice, so it is held whole; memory stays bounded.",
    fix: "Read a Blob, a file or an address instead, or write to a file, a handle or a stream; or raise the option memory of the input, maxBytes of memory().",
  },
  "usage/memory.files": {
    what: "The bytes of memory() were asked for, but it does not hold exactly one file.",
    why: "Nothing is written yet, or a set of several files.",
    fix: "Look at `files`, which has each file by its name.",
  },
  "usage/tensor": {
    what: "A tensor that was given to createModel cannot be one.",
    why: "Its name is given twice, its type is none, or its data is not as long as type and shape say.",
    fix: "Pass what the message says; data is little-endian and row-major.",
  },
  "usage/metadata": {
    what: "Metadata that was given to the library has a value that no file can hold.",
    why: "Files hold texts, numbers, booleans, null, bytes, and lists and objects of these.",
    fix: "Turn the value into one of these.",
  },
  "source/stream": {
    what: "A stream that was given to the library failed.",
    why: "Its other end stopped, or took no more bytes; the message has its reason.",
    fix: "Look at the code that made the stream, and try again.",
  },
} as const satisfies ErrorCatalog;
