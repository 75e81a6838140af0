import type { ErrorCatalog } from "../base/errors.ts";

/** Errors and findings about signatures and passwords, whatever the format. */
export const SIGNATURE_ERRORS = {
  "integrity/signature.valid": {
    what: "The file is signed, and nothing has changed since.",
    why: "A note, not a fault: it names the key. A key that only the file itself names proves nothing about its origin.",
    fix: "Compare with a key that you trust: `tare verify TARGET --public-key FILE`.",
  },
  "integrity/signature.invalid": {
    what: "A signature does not match what it is for.",
    why: "The file was changed or damaged after it was signed, or the signature was made for another one.",
    fix: "Get the file again from whoever signed it; do not use this copy.",
  },
  "integrity/signature.missing": {
    what: "A signature was demanded, and there is none.",
    why: "The file was never signed, or somebody removed the signature to hide a change.",
    fix: "Get the signed file, or accept it with --allow-unsigned.",
  },
  "integrity/signature.untrusted": {
    what: "The signature is valid, but by another key than the one that was asked for.",
    why: "Anybody can sign with a key of their own.",
    fix: "Get the public key from the publisher by another way, and the file from the publisher.",
  },
  "integrity/signature.content": {
    what: "A file is not the one that was signed.",
    why: "Its length or SHA-256 differs from the signed list.",
    fix: "Get that file again.",
  },
  "format/signature.file": {
    what: "A .sig file is not a signature as tare writes it.",
    why: "It is damaged, or belongs to another program, such as GnuPG.",
    fix: "Get it again, or sign again with `tare sign`.",
  },
  "format/signature.digest": {
    what: "The digest in a .sig file is not that of its list of files.",
    why: "It is there for people to compare; the signature itself covers the list and is valid.",
    fix: "Sign again with `tare sign`.",
  },
  "limit/signature.bytes": {
    what: "A .sig file is longer than any signature.",
    why: "It is read into memory whole.",
    fix: "Get it again, or sign again with `tare sign`.",
  },
  "usage/signature.parts": {
    what: "The files of a model lie in different places, so that one signature cannot name them all.",
    why: "A signature names files relative to its own folder.",
    fix: "Put them into one folder first, with `tare pull` or `tare merge`.",
  },
  "usage/password.missing": {
    what: "A password is needed, and none was given.",
    why: "Tensor data of the file is encrypted, or is to be; there was no terminal to ask at.",
    fix: "Pass --password-file FILE, or set TARE_PASSWORD_FILE, TARE_PASSWORD_COMMAND or TARE_PASSWORD.",
  },
  "usage/password.source": {
    what: "The place that should give the password does not.",
    why: "The file cannot be read, the command failed, the password is empty, or the two typed ones differ.",
    fix: "Check --password-file or the variable that is set; see docs/cli.md for their order.",
  },
  "usage/password.wrong": {
    what: "The password does not open the file.",
    why: "It is another one, or the place that keeps the wrapped key is damaged: the two cannot be told apart.",
    fix: "Check the password; if it is right, get another copy of the file.",
  },
} as const satisfies ErrorCatalog;
