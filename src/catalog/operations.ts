import type { ErrorCatalog } from "../base/errors.ts";

export const OPEN_ERRORS = {
  "format/empty": {
    what: "The file has no bytes at all.",
    why: "A download or copy that was cut off at once leaves such a file.",
    fix: "Get the file again.",
  },
  "format/zeros": {
    what: "The file is zero, as a whole or from one byte on.",
    why: "An interrupted download leaves such a file, and one whose room was reserved and never filled.",
    fix: "Get the file again.",
  },
  "format/text-damage": {
    what: "Many bytes of a binary file were replaced by the character U+FFFD.",
    why: "A program decoded it as UTF-8 text and wrote it again: every byte that is no text is lost.",
    fix: "Get the file again as binary.",
  },
  "format/line-ends": {
    what: "Every line feed of a binary file has a carriage return before it.",
    why: "Git or FTP took the file for text and changed its line ends, which shifts and damages everything after them.",
    fix: "Get the file again as binary; in Git, mark such files with `-text` in .gitattributes.",
  },
  "format/extension": {
    severity: "note",
    what: "The file's name suggests another format than its content.",
    why: "Content decides which reader is used, so this is only a note.",
    fix: "Rename the file if other tools go by the extension.",
  },
  "format/unclaimed": {
    severity: "warning",
    what: "Nothing in the file refers to some of its bytes.",
    why: "Something was appended or left behind, or hides there: readers ignore such bytes, and a conversion leaves them out or stops. Zeros are a note.",
    fix: "See where they are with `tare map`; write the file again if they do not matter.",
  },
  "format/padding": {
    severity: "note",
    what: "Padding between two parts of the file is not zero.",
    why: "Readers ignore it; writing the file again makes it zero.",
    fix: "Nothing needs to be done unless something was hidden there.",
  },
  "unsupported/unknown": {
    what: "The content matches no format that tare reads, and none that it knows to name.",
    why: "Every format is recognised by its first bytes, never by the file's extension.",
    fix: "Check that the file is a model's weights and not cut off at the beginning.",
  },
  "usage/merge.part": {
    what: "What is to be merged is one file of a set, and does not lead to the others.",
    why: "A SafeTensors shard, and a GGUF one after the first, holds tensors of its own and says nothing of the rest. What was written would pass for the whole model.",
    fix: "Name the index, the first of the numbered GGUF files, or the folder that holds them.",
  },
  "usage/not-a-url": {
    what: "A text was given to the portable library that is no http(s) or s3 address.",
    why: "The portable library has no file system, so a path means nothing to it.",
    fix: 'In Node, import the same function from "tare/node".',
  },
  "usage/not-a-model": {
    what: "The command needs tensors, but the target is an archive of files.",
    why: "A vault holds files; a model may be one of them.",
    fix: "Name the file inside the archive: ARCHIVE::path/to/model.",
  },
} as const satisfies ErrorCatalog;

export const INSIDE_ERRORS = {
  "usage/not-an-archive": {
    what: "A path after `::` was given, but the file is a model, not an archive.",
    why: "`::` names a file inside a vault, and only vaults have entries.",
    fix: "Leave out everything from `::` on, or name the vault.",
  },
} as const satisfies ErrorCatalog;

/** Errors and findings of the verbs, for any format. */
export const OPERATION_ERRORS = {
  "integrity/digest-mismatch": {
    what: "A tensor's bytes do not have the digest that the list gives for it.",
    why: "The file was damaged or changed after the list was made.",
    fix: "Get the file again; `tare diff` against another copy shows what differs.",
  },
  "integrity/digest-missing": {
    what: "The list of digests names a tensor that the file does not have.",
    why: "The list belongs to another file, or the tensor was removed.",
    fix: "Compare the names with `tare ls`.",
  },
  "integrity/digest-unlisted": {
    severity: "warning",
    what: "The list of digests has no entry for this tensor, so it could not be checked.",
    why: "The list belongs to another file, or the tensor was added later.",
    fix: "Make a new list with `tare verify TARGET --digest sha256 --json`.",
  },
  "integrity/not-checked": {
    severity: "note",
    what: "Something was left unchecked, as --remote asks.",
    why: "Checking it would download the whole file.",
    fix: "Run `tare verify TARGET --full`, or download the file and verify it there.",
  },
  "integrity/written": {
    what: "A file that was just written does not read back as what was to be written.",
    why: "The disk, the memory or the network changed bytes on the way. A file is dropped before it gets its name; an upload can only be checked when it is complete, and stays.",
    fix: "Try again, on another disk if it happens twice.",
  },
  "limit/loader": {
    what: "The tensor is larger than what the loader may hold in memory.",
    why: "A loader keeps the bytes of tensors within a budget, 64 MiB unless another was given.",
    fix: "Read the tensor in parts with streamTensor or tensorSlice, or raise maxBytes.",
  },
  "limit/prefetch": {
    what: "The tensors to be fetched ahead are larger together than the allowance.",
    why: "Their bytes are kept in memory until the caller lets go of them.",
    fix: "Fetch fewer tensors at a time, raise maxBytes, or go through the model with streamTensors.",
  },
  "usage/verify-output": {
    what: "What is written was to be verified, but the destination cannot be read back.",
    why: "Bytes in a pipe are gone; saying that they were checked would be untrue.",
    fix: "Name a file, or leave --verify out.",
  },
  "unsupported/lossy": {
    what: "The target format cannot carry something that the source has, or the source holds something that nothing here understands.",
    why: "No conversion and no edit of metadata drops or changes anything silently: not a chunk of an unknown type, not the first value of a key that comes twice, not bytes that nothing in the file refers to.",
    fix: "Leave tensors that are named out with `tare convert --exclude`, choose another format, or accept the loss with --allow-lossy. Bytes that nothing refers to, for example after the last tensor, fit no format: `tare map` shows where they are, --allow-lossy leaves them out, and the source file stays as it is.",
  },
  "unsupported/write": {
    what: "This version reads the format but does not write it.",
    why: "Legacy formats are kept readable so that nothing is stranded in them.",
    fix: "Choose another output format.",
  },
  "unsupported/npy.dtype": {
    what: "NumPy's .npy format has no such element type.",
    why: "bfloat16, fp8 and block-quantised types are not part of NumPy.",
    fix: "Add `--dtype f32`, or take the stored bytes with `--as raw`.",
  },
} as const satisfies ErrorCatalog;

/** Errors that only upgrading has. */
export const UPGRADE_ERRORS = {
  "usage/upgrade.format": {
    what: "Something else than an APR file was to be upgraded.",
    why: "Only APR has older layouts that a newer one replaces.",
    fix: "Use `tare convert IN OUT.apr` to write APR from another format.",
  },
  "usage/upgrade.current": {
    what: "The file to be upgraded is in the layout of the APR v2 specification already.",
    why: "There is nothing newer to make of it.",
    fix: "Use the file as it is, or write it again with `tare convert`.",
  },
  "unsupported/upgrade.aprn": {
    what: "An APRN container was to be upgraded.",
    why: "Its payload is a structure of the program that wrote it (Rust's bincode), whose fields are not described in the file.",
    fix: "Pass --wrap to keep the payload as one tensor of bytes, or load and save the model with aprender.",
  },
} as const satisfies ErrorCatalog;

/** Errors of editing metadata that formats throw. */
const RESTAMP_ERRORS = {
  "unsupported/stamp.set": {
    what: "The metadata of a set of files cannot be edited through the set.",
    why: "Its index holds lengths and digests of the files, or several of them hold the metadata.",
    fix: "Make one file of it with `tare merge`, stamp that, and cut it again; or stamp one file by its own name.",
  },
  "unsupported/stamp.layout": {
    what: "The file is laid out in a way in which its metadata cannot be edited alone.",
    why: "Another program wrote it, or an older version of the format.",
    fix: "Write the file again with `tare convert` or `tare upgrade`, then stamp that.",
  },
  "unsupported/stamp.signed": {
    what: "The file carries a signature, which any edit breaks.",
    why: "A signature covers the metadata, too.",
    fix: "Pass --unsign to leave the signature out, then sign again with `tare sign`.",
  },
  "unsupported/stamp.encrypted": {
    what: "The metadata of an encrypted file cannot be edited.",
    why: "It is authenticated together with the tensors, by a key that only the password opens.",
    fix: "Convert the file to one that is not encrypted, stamp that, and encrypt it again.",
  },
  "usage/stamp.container": {
    what: "A container was handed to the code of another format.",
    why: "Programs that use the library mixed up two of them.",
    fix: "Use planStamp with what openSource gave.",
  },
  "usage/stamp.key": {
    what: "The key cannot be edited, or not to such a value.",
    why: "Readers find or check the tensors by it.",
    fix: "Leave it as it is; `tare convert` changes the layout of a file.",
  },
} as const satisfies ErrorCatalog;

/** Errors of editing metadata. */
export const STAMP_ERRORS = {
  ...RESTAMP_ERRORS,
  "integrity/stamp": {
    what: "The file with the edited metadata would not read back as it should.",
    why: "What would be written is opened and compared first; this file has something that the edit would not keep.",
    fix: "Nothing was written. Write the file again with `tare convert`, then stamp that.",
  },
  "unsupported/stamp.value": {
    what: "The format has no type for the value.",
    why: "GGUF has no null, no objects and no arrays of several types.",
    fix: "Give a number, a text, true, false, or an array of one of them.",
  },
  "usage/stamp.empty": {
    what: "There is nothing to edit.",
    why: "Neither --set, --unset nor --from names a key.",
    fix: "Name one: tare stamp TARGET --set KEY=VALUE",
  },
} as const satisfies ErrorCatalog;

/** Errors and findings about signatures and passwords, for any format. */
export const SIGNATURE_ERRORS = {
  "integrity/signature.valid": {
    severity: "note",
    what: "The file is signed, and nothing has changed since.",
    why: "A note, not a fault: it names the key. A key that only the file itself names proves nothing about its origin.",
    fix: "Compare with a key that you trust: `tare verify TARGET --public-key FILE`.",
  },
  "integrity/signature.invalid": {
    what: "A signature does not match what it is for.",
    why: "The file was changed or damaged after it was signed, or the signature was made for another one.",
    fix: "Get the file again from the person who signed it; do not use this copy.",
  },
  "integrity/signature.missing": {
    what: "A signature was demanded, and there is none.",
    why: "The file was never signed, or someone removed the signature to hide a change.",
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
    severity: "warning",
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
  "usage/password.unused": {
    what: "More passwords were given than levels are encrypted.",
    why: "Each encrypted level takes one, outermost first; a level without encryption takes none. A password that no level takes was meant for another nesting.",
    fix: "Give one --password-file for each encrypted level. The last one holds for all deeper levels.",
  },
  "usage/password.source": {
    what: "The place that should give the password does not, or what it gives cannot be a password.",
    why: "The file cannot be read, the command failed, the password is empty, or the two typed ones differ.",
    fix: "Type the same password twice. Else check --password-file or the variable that is set; see docs/cli.md for their order.",
  },
  "usage/password.wrong": {
    what: "The password does not open the file.",
    why: "It is another one, or the place that keeps the wrapped key is damaged: the two cannot be told apart.",
    fix: "Check the password; if it is right, get another copy of the file.",
  },
} as const satisfies ErrorCatalog;

/** Errors of protecting files with sidecars, and of healing them. */
export const CORRECT_ERRORS = {
  "unsupported/aerocorrect.kind": {
    what: "The sidecar is of the other kind: that of a vault for a file, or that of a file for a vault.",
    why: "Both have the same name. That of a vault protects its header, manifest and blocks; that of a file protects the whole, of whatever kind it is.",
    fix: "Use `tare vault repair` with the one of a vault and `tare correct repair` with the one of a file.",
  },
  "integrity/aerocorrect.anchor": {
    what: "The sidecar is for another file than the one that is expected.",
    why: "Its SHA-256 is not the one of --expect-sha256. A sidecar can only restore the file that it was made of: one that someone planted would restore something else.",
    fix: "Look for the sidecar that was made of the right file. Nothing was written.",
  },
  "integrity/aerocorrect.damaged": {
    what: "The file is not the one that the sidecar was made of, and parity suffices to heal it.",
    why: "Bytes were damaged, lost or added.",
    fix: "Run `tare correct repair`.",
  },
  "integrity/aerocorrect.lost": {
    what: "The file is not the one that the sidecar was made of, and cannot be healed with it.",
    why: "More shards of a group are damaged than there are parity shards, or the sidecar belongs to another file or to another version of it.",
    fix: "Get another copy of the file. It is left as it is.",
  },
  "integrity/aerocorrect.other": {
    what: "The file has another length than the one that the sidecar was made of, and hardly a byte in common with it.",
    why: "It is another file, or it was written again since. Parity of a short file suffices to make that file out of anything: repairing would replace what is there now.",
    fix: "Make the sidecar again: `tare correct gen --force`. Where the old file is what you want, pass its SHA-256 as --expect-sha256. Nothing was written.",
  },
  "integrity/aerocorrect.parity": {
    severity: "warning",
    what: "The file is whole, but parity in its sidecar is damaged.",
    why: "Bytes of the sidecar were damaged on disk or on the way: it can heal less than it should.",
    fix: "Make it again: `tare correct gen --force`.",
  },
} as const satisfies ErrorCatalog;
