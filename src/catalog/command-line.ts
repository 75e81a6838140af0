import type { ErrorCatalog } from "../base/errors.ts";

/** Errors of the command line itself. */
export const CLI_ERRORS = {
  "usage/unknown-command": {
    what: "There is no command of that name.",
    why: "Commands and their other names are listed by `tare --help`.",
    fix: "Check the spelling; the error names the nearest command where there is one.",
  },
  "usage/unknown-flag": {
    what: "The command has no flag of that name.",
    why: "A flag that is ignored would do something else than what was asked for.",
    fix: "Look at `tare COMMAND --help`; the error names the nearest flag where there is one.",
  },
  "usage/flag-value": {
    what: "A flag's value is missing or not of the kind that it takes.",
    why: "Sizes, times, numbers and choices are checked before anything is done.",
    fix: "Give a value as the error describes it: `--max-size 300M`, `--timeout 30s`, `--rows 0:10`.",
  },
  "usage/arguments": {
    what: "The command got too few or too many arguments, or flags that exclude each other.",
    why: "Each command says in its usage line what it takes.",
    fix: "Look at `tare COMMAND --help`.",
  },
  "usage/header": {
    what: "An HTTP header is not of the form `Name: value`.",
    why: "A malformed header could be read as something else by the server.",
    fix: "Write `--header 'Name: value'`, or one such line each in the file for --header-file.",
  },
  "usage/json-needs-output": {
    what: "Both the bytes and the JSON document would go to standard output.",
    why: "With --json, standard output is exactly one JSON document.",
    fix: "Name a file for the bytes with -o, or leave out --json.",
  },
  "usage/binary-to-terminal": {
    what: "The bytes of a tensor would be printed on a terminal.",
    why: "They are no text, and terminals take some of them as commands.",
    fix: "Redirect standard output, or pass -o FILE. `tare stats` shows the values of tensors.",
  },
  "usage/output-format": {
    what: "The format to write is not clear, or not the one that the command writes.",
    why: "It is taken from --to or from the output's extension.",
    fix: "Pass --to, or give the output one of the extensions that the error lists.",
  },
  "usage/digest-list": {
    what: "The file given to --digests is no list of digests.",
    why: "A list is the JSON that `tare verify TARGET --digest sha256 --json` prints.",
    fix: "Make a list with that command, from a copy that is known to be good.",
  },
  "usage/limits-file": {
    what: "The file given to --limits cannot be used.",
    why: "It must be JSON with formats, their limits and whole numbers; a misspelt limit would silently do nothing.",
    fix: 'Write for example {"gguf": {"headerBytes": 1000000000}}; docs/limits.md lists all limits.',
  },
  "usage/vocabulary": {
    what: "The file given to --vocab is a tokenizer of another kind than BERT's.",
    why: "Only WordPiece vocabularies can be used: a vocab.txt, or a tokenizer.json whose model is WordPiece.",
    fix: "Give the vocab.txt or tokenizer.json that belongs to the model.",
  },
  "usage/unknown-code": {
    what: "There is no error of that code.",
    why: "`tare explain` knows every code that tare prints.",
    fix: "List all of them with `tare explain`.",
  },
  "usage/interrupted": {
    what: "The command was interrupted, by Ctrl-C or another signal.",
    why: "Files that were being written have been removed; nothing half-done is left.",
    fix: "Run the command again.",
  },
  "usage/write-option": {
    what: "An option of convert makes no sense for the output format, or its value is not one.",
    why: "Options are never ignored silently: a file without the digests that were asked for would look checked.",
    fix: "Leave the option out, or choose a format that honours it; docs/cli.md lists which do.",
  },
  "limit/flag-file": {
    what: "A file that a flag names is longer than any such file.",
    why: "It is held in memory as a whole, and a device or a pipe may never end.",
    fix: "Check the name that was given to the flag.",
  },
  "format/texts.utf8": {
    what: "A file of texts, or standard input, is not UTF-8.",
    why: "In another encoding its letters would be taken for others, and the vectors would mean something else.",
    fix: "Save the file as UTF-8, or convert it: iconv -f latin1 -t utf8.",
  },
  "limit/texts.line": {
    what: "A line of a file of texts has more than 16 MiB.",
    why: "Every line is one text, and a model looks at a few hundred words of it: this is a file of another kind, or one without line breaks.",
    fix: "Name a file that has one text per line.",
  },
  "format/texts.json": {
    what: "A line of a .jsonl file is neither a JSON string nor an object with a text.",
    why: 'Each line must say one text: "…", or {"text": "…"} with anything else beside it.',
    fix: "Correct the line that the error names, or give the file another extension to take its lines as they are.",
  },
  "internal/bug": {
    what: "Something went wrong inside tare that it did not foresee.",
    why: "This is a bug in tare, never the fault of a file.",
    fix: "Run the command again with -v and report what it prints.",
  },
} as const satisfies ErrorCatalog;
