import type { ErrorCatalog } from "../base/errors.ts";

/** Errors of Sources, Sinks and Resolvers that are not about the web: files, buffers, names. */
const PLACE_ERRORS = {
  "source/not-found": {
    what: "There is no file of this name, or the folder to write it to is missing.",
    why: "The path or URL is misspelt, or the file was moved or never downloaded.",
    fix: "Check the spelling; for a file of a set, get the missing part.",
  },
  "source/forbidden": {
    what: "The system does not let this user read or write the file.",
    why: "Its permissions, those of its folder, or a read-only file system forbid it.",
    fix: "Change the permissions, or run the command as the owner of the file.",
  },
  "source/is-directory": {
    what: "A folder was named where a file is needed.",
    why: "Only files hold bytes.",
    fix: "Name a file in that folder.",
  },
  "source/not-a-file": {
    what: "A file of a set is a device, pipe or socket.",
    why: "Reading it could block for ever, and no real part of a model is one.",
    fix: "Put a regular file in its place.",
  },
  "source/truncated": {
    what: "The file ended before the length it had when it was opened.",
    why: "Another program shortened or rewrote it meanwhile.",
    fix: "Wait until that program is done, then run the command again.",
  },
  "source/changed": {
    what: "The file is not the one that was opened at first.",
    why: "It was written to or replaced meanwhile; mixing two versions would give nonsense.",
    fix: "Run the command again, or choose the file again.",
  },
  "source/no-space": {
    what: "The disk is full, or a quota is used up.",
    why: "The output needs more room than there is. What was there before is unchanged.",
    fix: "Free some space or write to another disk.",
  },
  "source/io": {
    what: "The system reported an error while reading or writing.",
    why: "Failing disks, lost network mounts and too many open files show up like this.",
    fix: "Read the reason in the message; copy the file elsewhere if the disk is suspect.",
  },
  "source/closed": {
    what: "A source was used after it was closed.",
    why: "Closing releases the file or connection; this is a mistake in the calling program.",
    fix: "Close a container only when its tensors are no longer needed.",
  },
  "source/out-of-range": {
    what: "A read lies outside the file.",
    why: "The file is shorter than its own headers claim, or the caller miscalculated.",
    fix: "Check that the file is complete; get another copy.",
  },
  "source/resolver.escape": {
    what: "A file refers to a name outside its own folder, or to a name that is not safe on every system.",
    why: "The author of a file chooses the names in it; following them could read or overwrite anything.",
    fix: "Do not trust the file. If it is yours, keep all its parts in one folder.",
  },
  "source/resolver.origin": {
    what: "A file refers to a file on another server, or to one that redirects there.",
    why: "An index could make this machine ask any server, also one inside a private network.",
    fix: "Pass --allow-origin with the address that the message names, if you trust it.",
  },
  "source/offline": {
    what: "Bytes of a remote file are wanted, but --offline forbids the network.",
    why: "With --offline no request is made: what is not in the cache cannot be read.",
    fix: "Run the same command once without --offline, or name a local file.",
  },
  "usage/exists": {
    what: "The output exists already.",
    why: "Nothing is overwritten unless you say so.",
    fix: "Choose another name, or pass --force.",
  },
  "usage/own-input": {
    what: "The output is a file that the command reads.",
    why: "What is written holds less than that file, or another thing: with --force the file would be lost.",
    fix: "Choose another name for the output.",
  },
  "usage/not-a-file": {
    what: "The output, or the vault that is to be changed, is a device, pipe or socket.",
    why: "Outputs appear under their name all at once, by a rename that would remove the device. Opening a pipe waits for a writer.",
    fix: "Name a regular file.",
  },
  "usage/mirror-length": {
    what: "A mirror does not have as many bytes as the file that it should replace.",
    why: "It holds another file, or another version of it; mixing the two would give nonsense.",
    fix: "Leave the mirror out, or bring it up to date.",
  },
  "usage/buffer-length": {
    what: "A buffer of another length than the read was passed.",
    why: "Reads never fill a buffer in part; this is a mistake in the calling program.",
    fix: "Pass a buffer of exactly the length that is read.",
  },
  "usage/sink.done": {
    what: "A sink was written to after commit or abort.",
    why: "Its file has its final name already, or is gone; this is a mistake in the calling program.",
    fix: "Open a new sink.",
  },
  "usage/sink.range": {
    what: "Bytes that were neither reserved nor appended were to be filled.",
    why: "It would leave a hole in the file; this is a mistake in the calling program.",
    fix: "Reserve the room first.",
  },
  "limit/buffer": {
    what: "A single read is longer than any buffer of this system.",
    why: "Runtimes limit buffers to a few gigabytes.",
    fix: "Read in pieces, or stream.",
  },
  "limit/spool": {
    what: "A pipe or device delivered more bytes than may be kept in a temporary copy.",
    why: "Formats need random access, so such inputs are copied first; some of them never end.",
    fix: "Save the data to a file and name that file.",
  },
} as const satisfies ErrorCatalog;

/** Errors of files on web servers. */
const HTTP_ERRORS = {
  "source/http.changed": {
    what: "The file on the server was replaced while it was read.",
    why: "Its ETag, date or length differ between two replies; bytes of two versions are never mixed.",
    fix: "Open it again. If it happens every time, several servers share one name and hold different files.",
  },
  "source/http.pinned": {
    what: "A file on the server has another length than its index says.",
    why: "Index and file are from different versions, or a mirror holds an older one.",
    fix: "Publish index and files together; pull the set again where it is a mirror.",
  },
  "source/http.forbidden": {
    what: "The server refuses access (401 or 403).",
    why: "The file is private or gated, or the token is missing, wrong or expired.",
    fix: "Set HF_TOKEN or pass --header-file; on a hub, accept the model's terms first.",
  },
  "source/http.busy": {
    what: "The server asked to come back later, or failed, after all retries (408, 429, 5xx).",
    why: "It is overloaded or limits how often one client may ask.",
    fix: "Try again later.",
  },
  "source/http.status": {
    what: "The server answered with a status that is neither the file nor a known failure.",
    why: "The URL belongs to something other than a file, or a proxy intervened.",
    fix: "Open the URL in a browser and see what it says.",
  },
  "source/http.network": {
    what: "The connection broke, after all retries.",
    why: "The network is unreliable, or in a browser the server does not allow this page (CORS).",
    fix: "Try again; download the file first if the line is bad.",
  },
  "source/http.unreachable": {
    what: "No connection to the server can be made.",
    why: "Its name does not exist, or nothing listens at that address.",
    fix: "Check the address, the port and the network.",
  },
  "source/http.timeout": {
    what: "The server was silent for too long, after all retries.",
    why: "It hangs, or something in between drops the traffic.",
    fix: "Try again later, or raise the timeout.",
  },
  "source/http.slow": {
    what: "The server sent fewer bytes than any working line brings, over a minute, after all retries.",
    why: "It hands out a byte now and then, which would hold a reader for ever. A reader that takes its time does not count.",
    fix: "Try another server. On a line this slow, raise the timeout: the rate is taken over twice as long.",
  },
  "source/http.reply": {
    what: "What the server sent is no HTTP reply, or one that can be read in two ways, after all retries.",
    why: "Something other than a web server answers, or something in between damages the replies.",
    fix: "Check the address and the port.",
  },
  "source/http.range": {
    what: "The server sent another part of the file than was asked for, or only a few bytes of it.",
    why: "It, or a proxy in between, mishandles range requests.",
    fix: "Download the file first, then open the copy.",
  },
  "source/http.range-ignored": {
    what: "The server sent the whole file where it had sent ranges before.",
    why: "Several servers share one name, or a proxy drops the Range header.",
    fix: "Try again; download the file first if it persists.",
  },
  "source/http.length": {
    what: "A reply had more or fewer bytes than it promised, after all retries.",
    why: "Connections that break without a word look like this.",
    fix: "Try again; download the file first if it persists.",
  },
  "source/http.encoding": {
    what: "The server sent the file compressed, although plain bytes were asked for.",
    why: "Offsets count bytes of the file, so a compressed range is of no use.",
    fix: "Turn off compression for this file on the server, or download it first.",
  },
  "source/http.blocked-redirect": {
    what: "The server of a link redirects to another server, and the viewer may ask only the server of the link.",
    why: "The policy of the page names the servers that it may ask, so that what you look at stays on your machine.",
    fix: "Allow the other server with the button below the message, or add &allow=https://HOST to the link.",
  },
  "source/http.redirect": {
    what: "A redirect was not followed.",
    why: "It goes in a circle, from https to http, to something other than http, or from a public server into a private network.",
    fix: "Name the final address yourself if you trust it.",
  },
  "source/http.proxy": {
    what: "The proxy refused to make the connection.",
    why: "It wants a password, or does not allow this server.",
    fix: "Check HTTPS_PROXY and HTTP_PROXY, or add the server to NO_PROXY.",
  },
  "source/http.tls": {
    what: "The server's certificate is not trusted.",
    why: "It is self-signed, expired or for another name, or someone listens in.",
    fix: "Name your own certificate authority with NODE_EXTRA_CA_CERTS.",
  },
  "usage/http.url": {
    what: "The address is not an http or https URL.",
    why: "Other schemes are not supported here.",
    fix: "Write the whole address, beginning with https://.",
  },
  "usage/allow-origin": {
    what: "The value of --allow-origin is not an http or https URL.",
    why: "Files may refer to other servers only where their exact origin is known.",
    fix: "Write scheme and host, as in --allow-origin https://example.org.",
  },
  "usage/http.pinned": {
    what: "A length or SHA-256 that cannot be one was given for a remote file.",
    why: "Pins are a whole number and 64 lower-case hex digits; this is a mistake in the calling program.",
    fix: "Pass both as the index states them, or open the file without.",
  },
  "usage/http.header": {
    what: "A header cannot be sent: it holds characters that HTTP forbids, belongs to the connection, or is a condition without an entity-tag.",
    why: "Line breaks in a header, or a second length, could smuggle in a second request.",
    fix: "Remove the line break or the unusual character; leave out headers such as Content-Length.",
  },
  "usage/http.request": {
    what: "A request cannot be sent: its method or address holds characters that HTTP forbids.",
    why: "They could smuggle in a second request; this is a mistake in the calling program.",
    fix: "Pass a method in capital letters and a URL that is properly encoded.",
  },
  "usage/http.proxy": {
    what: "A proxy variable of the environment cannot be used.",
    why: "It is not a URL, its scheme is not http, https or socks5, or its user or password has a % that begins no code.",
    fix: "Correct or unset HTTPS_PROXY, HTTP_PROXY or ALL_PROXY; % itself is written %25.",
  },
  "limit/http.memory": {
    what: "The server does not tell the length of the file, and it is too long to keep in memory.",
    why: "Without a length there is no random access.",
    fix: "Download the file first, then open the copy.",
  },
  "limit/http.discard": {
    what: "The server ignores ranges, and too much would have to be received only to be dropped.",
    why: "Every read would transfer all bytes before it.",
    fix: "Download the file first, then open the copy.",
  },
} as const satisfies ErrorCatalog;

/** Every code thrown by src/bytes and by the file and HTTP parts of src/platform/node. */
export const BYTES_ERRORS = { ...PLACE_ERRORS, ...HTTP_ERRORS } as const satisfies ErrorCatalog;

/** Errors of object stores. */
export const S3_ERRORS = {
  "source/s3.forbidden": {
    what: "The object store refuses access (401 or 403).",
    why: "Credentials are missing, wrong or expired, or the key may not do this; a signed URL may have expired.",
    fix: "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; ask for a new signed URL.",
  },
  "source/s3.busy": {
    what: "The object store asked to come back later, or failed, after all retries.",
    why: "It is overloaded, or limits how often one client may ask.",
    fix: "Try again later, with a lower --concurrency.",
  },
  "source/s3.refused": {
    what: "The object store does not do what it was asked.",
    why: "The message has its own code and words.",
    fix: "Look the code up in the documentation of the store.",
  },
  "source/s3.reply": {
    what: "The object store sent a reply that cannot be read.",
    why: "It does not speak the S3 protocol, or a proxy answered in its place.",
    fix: "Check AWS_ENDPOINT_URL_S3.",
  },
  "source/s3.changed": {
    what: "The object that was to be replaced was written by someone else meanwhile.",
    why: "Two writers never mix: the one that comes second is refused, whatever --force says.",
    fix: "Look at what is there now, then run the command again.",
  },
  "limit/s3.held": {
    what: "More bytes would have to be kept back until the end of the upload than is allowed.",
    why: "What a format fills in later cannot be sent before it is known, and parts are sent whole.",
    fix: "Write to a disk first, then use `tare push`.",
  },
  "limit/s3.object": {
    what: "The object would be longer than object stores take.",
    why: "An upload has at most 10,000 parts, and an object at most 5 TiB.",
    fix: "Cut the model up with --max-shard-size.",
  },
  "unsupported/s3.fill": {
    what: "Bytes that were already sent to the object store were to be changed.",
    why: "A part of an upload cannot be changed in place.",
    fix: "Write to a disk first, then use `tare push`.",
  },
  "usage/s3.address": {
    what: "An s3:// address is not well formed.",
    why: "It needs a bucket and, for a single object, a key without dot segments.",
    fix: "Write s3://bucket/key.",
  },
} as const satisfies ErrorCatalog;

/** Errors of the environment that names a store. */
export const S3_SETTINGS_ERRORS = {
  "usage/s3.settings": {
    what: "A setting for object storage cannot be used.",
    why: "An AWS_* variable or a profile in ~/.aws is missing, incomplete or of a kind that tare does not handle.",
    fix: "Correct the variable or file that the error names.",
  },
} as const satisfies ErrorCatalog;
