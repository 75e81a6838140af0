import type { ErrorCatalog } from "../base/errors.ts";

/** What strict JSON refuses, whichever format holds it. */
export const JSON_ERRORS = {
  "format/json.utf8": {
    what: "JSON text holds bytes that are not UTF-8.",
    why: "JSON inside model files is UTF-8 by specification; other bytes are damage or another encoding.",
    fix: "Get another copy of the file, or write it again as UTF-8.",
  },
  "format/json.syntax": {
    what: "JSON text breaks the grammar of RFC 8259.",
    why: "Two readers that forgive differently would see two different files, so nothing is forgiven.",
    fix: "Write the JSON again with a real JSON writer, or get another copy of the file.",
  },
  "format/json.duplicate-key": {
    what: "A JSON object has the same key twice.",
    why: "Readers disagree on which of the two counts, which is how one file shows two faces.",
    fix: "Remove one of the two.",
  },
  "format/json.object": {
    what: "A JSON text is something else than an object.",
    why: "Its members are taken as keys and values; a list, a number or nothing at all has none.",
    fix: 'Write it as one object: {"key": value, …}',
  },
  "limit/json.depth": {
    what: "JSON arrays and objects are nested deeper than 127 levels.",
    why: "Deep nesting serves only to exhaust the stack of a reader; 127 is what common readers accept.",
    fix: "Flatten the value.",
  },
  "limit/json.values": {
    what: "JSON text holds more values than this reader builds in memory.",
    why: "Two bytes of text can become sixty bytes of memory, so the count is bounded whatever the length.",
    fix: "Split the document, or raise the limit where you call the parser.",
  },
} as const satisfies ErrorCatalog;
