import type { ErrorCatalog } from "../base/errors.ts";

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
    why: "Its own code and words stand in the message.",
    fix: "Look the code up in the documentation of the store.",
  },
  "source/s3.reply": {
    what: "The object store sent a reply that cannot be read.",
    why: "It does not speak the S3 protocol, or a proxy answered in its place.",
    fix: "Check AWS_ENDPOINT_URL_S3.",
  },
  "source/s3.changed": {
    what: "The object that was to be replaced was written by somebody else meanwhile.",
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
