import type { ErrorCatalog } from "../../../base/errors.ts";

/** Errors and findings of encrypted APR files. */
export const APR_SEAL_ERRORS = {
  "format/apr.encryption": {
    what: "The metadata of an encrypted APR file says badly how it is encrypted.",
    why: "A field of the key `encryption` is missing or has another form than tare writes.",
    fix: "Get another copy of the file.",
  },
  "format/apr.sealed-size": {
    what: "The stored size of an encrypted tensor fits no number of segments.",
    why: "The index is damaged, or was changed.",
    fix: "Get another copy of the file.",
  },
  "format/apr.unsealed-tensor": {
    what: "An encrypted APR file has a tensor that is not encrypted.",
    why: "Somebody without the password could have put it there, so that nothing of the file is given out.",
    fix: "Get another copy of the file, from whoever encrypted it.",
  },
  "integrity/apr.front": {
    what: "Header, metadata or index of an encrypted APR file are not those that were written.",
    why: "Their HMAC, which needs the password, does not match: they were changed or damaged.",
    fix: "Get another copy of the file.",
  },
  "integrity/apr.segment": {
    what: "A segment of an encrypted tensor is not the one that was written.",
    why: "Its tag does not match: it was changed, moved or damaged. Nothing of it is given out.",
    fix: "Get another copy of the file.",
  },
  "integrity/apr.sealed": {
    what: "The tensors of an encrypted file were not looked into.",
    why: "There was no password; the CRC of the file was checked, which damage does not survive but an attacker can.",
    fix: "Verify with --password-file FILE.",
  },
  "limit/apr.kdf": {
    what: "Argon2id's cost is outside of what is accepted.",
    why: "Less than 19 MiB is too easy to guess at; more than 1 GiB or 16 passes would let a file exhaust the machine.",
    fix: "Get the file encrypted again with usual parameters.",
  },
} as const satisfies ErrorCatalog;
