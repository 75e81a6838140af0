import type { ErrorCatalog } from "../../base/errors.ts";

const AGAIN = "Download the file again; if the copy is whole, its writer made a mistake.";

/** All errors of reading and writing APR by its specification. */
export const APR_ERRORS = {
  "format/apr.magic": {
    what: "The file begins like APR, but with none of the magic numbers that are in use.",
    why: "The fourth byte tells the layouts apart; another one is damage, or a layout that was never published.",
    fix: AGAIN,
  },
  "format/apr.byte-order": {
    what: "The file begins with the magic of APR v2 turned round.",
    why: "A writer that stores numbers big-endian does this; all its other numbers would be misread too.",
    fix: "Write the file again with a program that stores numbers little-endian.",
  },
  "format/apr.header": {
    what: "The file begins like APR v2 but has fewer than the 32 bytes of its header.",
    why: "A download that was cut off at once leaves such a file.",
    fix: "Download the file again.",
  },
  "format/apr.truncated": {
    what: "The header points at bytes beyond the end of the file.",
    why: "The file is cut short, or its header is damaged; nothing is read or allocated for it.",
    fix: AGAIN,
  },
  "format/apr.regions": {
    what: "Header, metadata and index share bytes.",
    why: "The same bytes cannot be two things; readers would see two different files.",
    fix: AGAIN,
  },
  "format/apr.metadata": {
    what: "The metadata is not a JSON object.",
    why: "The specification says it is one, and it holds everything that the file says of itself.",
    fix: AGAIN,
  },
  "format/apr.metadata-padding": {
    severity: "warning",
    what: "metadata_size counts white space or zeros after the JSON.",
    why: "The size is meant to be exact; some writers pad inside it.",
    fix: "Nothing needs to be done; writing the file again removes it.",
  },
  "format/apr.metadata-version": {
    severity: "warning",
    what: "apr_version in the metadata names another major version than the header.",
    why: "The header decides how the file is read; the metadata was copied from elsewhere.",
    fix: "Write the file again.",
  },
  "format/apr.duplicate-key": {
    what: "The metadata has the same key twice.",
    why: "Readers take the last one, as the programs that write such files do; others may take the first.",
    fix: "Write the file again; only the last value is kept.",
  },
  "format/apr.required-key": {
    what: "The metadata lacks apr_version, model_type or architecture, or has it with another type.",
    why: "The specification requires the three; a loader may refuse a file without them.",
    fix: "Convert the file to APR again, with --metadata config.json where the configuration is known.",
  },
  "format/apr.index": {
    what: "The tensor index ends inside an entry, or announces more tensors than it has room for.",
    why: "Without a whole index there is no way to find the tensors.",
    fix: AGAIN,
  },
  "format/apr.index-rest": {
    severity: "warning",
    what: "index_size counts bytes after the last entry.",
    why: "They have no meaning; a writer padded the index, or counted wrongly.",
    fix: "Nothing needs to be done; writing the file again removes them.",
  },
  "format/apr.name-utf8": {
    what: "A tensor name is not valid UTF-8.",
    why: "A name that cannot be spelled cannot be asked for or written to other formats.",
    fix: AGAIN,
  },
  "format/apr.empty-name": {
    severity: "warning",
    what: "A tensor has an empty name.",
    why: "The length field allows it, but no writer means it.",
    fix: "Rename the tensor when converting.",
  },
  "format/apr.duplicate-name": {
    what: "Two tensors have the same name.",
    why: "Readers disagree on which one counts, so a file can mean two things.",
    fix: AGAIN,
  },
  "format/apr.tensor-size": {
    what: "A tensor's size is not what its type and dimensions ask for.",
    why: "Reading it would give too few values, or some of its neighbour's.",
    fix: AGAIN,
  },
  "format/apr.tensor-flags": {
    severity: "warning",
    what: "A tensor's sizes and its flags disagree on whether it is compressed.",
    why: "The sizes decide: raw_size is 0 for tensors that are stored as they are.",
    fix: "Nothing needs to be done; writing the file again makes them agree.",
  },
  "format/apr.tensor-bounds": {
    what: "A tensor reaches beyond the end of the data.",
    why: "The file is cut short, or its index is damaged.",
    fix: AGAIN,
  },
  "format/apr.overlap": {
    what: "Two tensors share bytes.",
    why: "The format has no shared tensors; an offset is wrong.",
    fix: AGAIN,
  },
  "format/apr.data-offset": {
    what: "data_offset is not a multiple of 64, or points into the metadata or the index.",
    why: "The data begins after both, aligned, so that tensors can be used where they are.",
    fix: "Write the file again.",
  },
  "format/apr.alignment": {
    what: "A tensor does not begin where the alignment flag of the file promises.",
    why: "Loaders map files into memory and use tensors in place; a wrong start makes them fail or slow.",
    fix: "Write the file again.",
  },
  "format/apr.no-alignment": {
    severity: "warning",
    what: "The file has neither the flag ALIGNED_64 nor ALIGNED_32.",
    why: "Nothing is promised of where tensors begin, so they cannot be used in place without a look.",
    fix: "Write the file again.",
  },
  "format/apr.padding": {
    severity: "warning",
    what: "Bytes between the parts of the file are not zero.",
    why: "They have no meaning, but may hide something, or be damage that the CRC covers up.",
    fix: "Write the file again; padding is then zeros.",
  },
  "format/apr.flags": {
    severity: "warning",
    what: "A flag of the header does not agree with what the file holds.",
    why: "Tensors are read by what the index says of each; the flags are a summary that a writer got wrong.",
    fix: "Nothing needs to be done; writing the file again makes them agree.",
  },
  "format/apr.unknown-flags": {
    severity: "warning",
    what: "The header has flags that this version does not know.",
    why: "They may mean something to newer readers; everything else is read as usual.",
    fix: "Look for a newer version of tare.",
  },
  "format/apr.minor-version": {
    severity: "warning",
    what: "The file is of a later minor version of APR v2.",
    why: "Minor versions stay readable, but may hold something that is not shown here.",
    fix: "Look for a newer version of tare.",
  },
  "format/apr.footer": {
    what: "The file does not end with the footer of APR v2.",
    why: "It was cut short, or something was appended to it.",
    fix: AGAIN,
  },
  "format/apr.file-size": {
    what: "The length that the footer states is not the length of the file.",
    why: "Bytes were lost or added, or the footer is damaged.",
    fix: AGAIN,
  },
  "format/apr.block": {
    what: "A compressed tensor's blocks are not what the format allows.",
    why: "A block must have 1 to 65809 bytes and give 1 to 65536, and all of them together exactly the tensor.",
    fix: AGAIN,
  },
  "format/apr.manifest": {
    what: "The manifest of a set breaks a rule: a field is missing, of another type, or out of range.",
    why: "Without a sound manifest there is no way to tell which tensor is in which file.",
    fix: "Get the manifest again, or make it again with: tare shard.",
  },
  "format/apr.shard-size": {
    what: "A shard does not have the size that the manifest states.",
    why: "The shard was cut short, or belongs to another version of the set.",
    fix: "Download the shard again.",
  },
  "format/apr.shard-number": {
    what: "A shard says that it is another one of the set, or of a set with another number of shards.",
    why: "Two files were exchanged, or one comes from another set.",
    fix: "Get manifest and shards from the same place.",
  },
  "format/apr.missing-tensor": {
    what: "The manifest says that a tensor is in a shard, and it is not there.",
    why: "A shard was replaced, or the manifest belongs to another version of the set.",
    fix: "Get manifest and shards from the same place.",
  },
  "format/apr.unlisted-tensor": {
    what: "A shard holds a tensor that the manifest does not list there.",
    why: "The manifest decides, so the tensor is left out; a set that disagrees with itself is not sound.",
    fix: "Get manifest and shards from the same place.",
  },
  "format/apr.shard-crc-kind": {
    severity: "note",
    what: "The manifest gives the CRC-32 of a shard's whole file, not of the bytes before its footer.",
    why: "The specification leaves open which one is meant; both are accepted. A file that ends with its own CRC has a CRC that depends on its length alone, so such a manifest does not tell a shard of another model from its own. tare wrote it so at first.",
    fix: "Make the set again from files that you trust: tare merge MANIFEST -o OUT.apr, then tare shard.",
  },
  "integrity/apr.crc": {
    what: "The CRC-32 in the footer is not the one of the bytes before it.",
    why: "The file was changed or damaged after it was written.",
    fix: "Download the file again.",
  },
  "integrity/apr.shard-crc": {
    what: "A shard's CRC-32 is not the one that the manifest states.",
    why: "The shard was damaged, or belongs to another version of the set.",
    fix: "Download the shard again, or the whole set.",
  },
  "integrity/apr.no-shard-crc": {
    severity: "warning",
    what: "The manifest gives no CRC-32 for a shard.",
    why: "The shard was compared with its own footer only, which a replaced file carries too.",
    fix: "Make the set again with: tare shard.",
  },
  "integrity/apr.no-control-digest": {
    severity: "note",
    what: "Only the whole of an APR file has a checksum.",
    why: "Checking header, metadata and index alone is not possible.",
    fix: "Use: tare verify --full.",
  },
  "unsupported/apr.version": {
    what: "The file is of another major version of APR than 2.",
    why: "Its layout is not known here; reading it as version 2 would give wrong tensors.",
    fix: "Look for a newer version of tare.",
  },
  "unsupported/apr.dtype": {
    what: "A tensor has a type id that the specification does not assign.",
    why: "Without the type its values mean nothing.",
    fix: "Look for a newer version of tare, or write the file again.",
  },
  "unsupported/apr.container": {
    what: "The file is a container of the same family that holds APR files, not tensors.",
    why: "It can only be unpacked by the program that made it.",
    fix: "Unpack it first, then open the .apr file inside.",
  },
  "unsupported/apr.encrypted": {
    what: "The tensor is encrypted, and no password was given.",
    why: "Names, types and metadata are readable without; the weights are not.",
    fix: "Give the password, for example with --password-file FILE.",
  },
  "limit/apr.metadata-bytes": {
    what: "The metadata is longer than this reader is willing to hold.",
    why: "It is parsed in memory.",
    fix: "Raise the limit apr.metadataBytes if you trust the file.",
  },
  "limit/apr.index-bytes": {
    what: "The tensor index is longer than this reader is willing to hold.",
    why: "It is parsed in memory.",
    fix: "Raise the limit apr.indexBytes if you trust the file.",
  },
  "limit/apr.dimensions": {
    what: "A tensor has no dimensions, or more than eight.",
    why: "The specification allows 1 to 8; other numbers are usually damage.",
    fix: "Set the limits apr.leastDimensions or apr.dimensions if a writer really makes such files.",
  },
  "limit/apr.manifest-bytes": {
    what: "The manifest is longer than this reader is willing to hold.",
    why: "It is parsed in memory.",
    fix: "Raise the limit apr.manifestBytes if you trust the file.",
  },
  "limit/apr.shards": {
    what: "The manifest names more shards than this reader is willing to open.",
    why: "Every one of them is opened.",
    fix: "Raise the limit apr.shards if you trust the set.",
  },
  "limit/apr.front-bytes": {
    what: "Metadata and index are so long that the data would begin beyond 4 GiB.",
    why: "The header has 32 bits for where they and the data begin.",
    fix: "Shard the model, or leave some of the metadata out.",
  },
  "usage/apr.align": {
    what: "An alignment was asked for that APR has no flag for.",
    why: "A flag tells readers the alignment, and there are two: 64 and 32.",
    fix: "Use --align 64 or --align 32.",
  },
  "usage/apr.container": {
    what: "Something that is no APR model or plan was given to the APR format.",
    why: "This is a mistake of the calling program.",
    fix: "Pass what the APR format itself opened or planned.",
  },
  "usage/apr.no-siblings": {
    what: "A manifest was opened without a way to its shards.",
    why: "A lone Blob or a pipe has no files beside it.",
    fix: "Open the folder or URL that holds the shards.",
  },
} as const satisfies ErrorCatalog;

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
    why: "A person without the password could have put it there. So tare gives out nothing of the file.",
    fix: "Get another copy of the file, from the person who encrypted it.",
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
    severity: "note",
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
