/** What the target of a request names, before the disk is asked. */
export type RequestPath =
  | {
      readonly kind: "path";
      /** Decoded names from the root on; none of them is empty, hidden, "." or "..". */
      readonly segments: readonly string[];
      /** "folder" where the path ends in a slash. */
      readonly form: "file" | "folder";
    }
  | { readonly kind: "refused"; readonly status: 400 | 404; readonly reason: string };

/**
 * Takes a request target apart (RFC 9112 §3.2: origin-form or absolute-form). It is decoded once and by segment,
 * so that nothing a name contains can become a separator. Never throws.
 */
export function parseRequestPath(target: string): RequestPath {
  const [path = ""] = target.replace(/^https?:\/\/[^/?#]*/i, "").split(/[?#]/, 1);
  if (path === "") return { kind: "path", segments: [], form: "folder" };
  if (!path.startsWith("/")) return refuse(400, "the path does not begin with a slash");
  const segments: string[] = [];
  for (const encoded of path.split("/")) {
    // Slashes in a row count as one, as in every file system.
    if (encoded === "") continue;
    const name = decodeSegment(encoded);
    if (name === undefined) return refuse(400, "the path is not percent-encoded UTF-8");
    const fault = findFault(name);
    if (fault !== undefined) return refuse(400, fault);
    if (isHidden(name)) return refuse(404, "no such file");
    segments.push(name);
  }
  return { kind: "path", segments, form: path.endsWith("/") ? "folder" : "file" };
}

/** Names that are never served or listed: ".git", ".env", ".ssh". */
export function isHidden(name: string): boolean {
  return name.startsWith(".");
}

/**
 * The path of a URL for these names. Everything but RFC 3986's unreserved characters is encoded, so that the URL
 * can be pasted into a shell as it is.
 */
export function encodePath(segments: readonly string[], form: "file" | "folder"): string {
  const path = `/${segments.map(encodeSegment).join("/")}`;
  return form === "folder" && segments.length > 0 ? `${path}/` : path;
}

function encodeSegment(name: string): string {
  // A name from a disk may hold half a surrogate pair, on which encodeURIComponent throws.
  return encodeURIComponent(name.replace(/\p{Surrogate}/gu, "\ufffd")).replace(/[!'()*]/g, (character) => {
    return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
  });
}

function decodeSegment(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined; // its URIError says no more than that
  }
}

function findFault(name: string): string | undefined {
  if (name.includes("\0")) return "the path contains a NUL";
  if (name.includes("/") || name.includes("\\")) return "a name in the path contains a separator";
  if (name === "." || name === "..") return `the path contains "${name}"`;
  return undefined;
}

function refuse(status: 400 | 404, reason: string): RequestPath {
  return { kind: "refused", status, reason };
}
