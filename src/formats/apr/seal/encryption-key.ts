/** The metadata key that says how a file is encrypted: an extension, since the specification only has a flag for it. */
export const ENCRYPTION_KEY = "encryption";
