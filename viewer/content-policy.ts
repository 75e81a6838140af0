/**
 * Runs before everything else, as a classic script, because a page from `file://` may not load modules. Opens the
 * network only for the address that the link names. The policy of a living page can be tightened, never loosened, so
 * opening another address reloads the page.
 */

/** Servers that redirect to other hosts. */
const REDIRECTS: Readonly<Record<string, readonly string[]>> = {
  "huggingface.co": ["https://*.huggingface.co", "https://*.hf.co"],
};

function allowedAddresses(hash: string): string[] {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const asked = [...fields.getAll("url"), ...fields.getAll("with")].flatMap((address) => sourcesOf(address));
  return [...new Set([...asked, ...fields.getAll("allow").flatMap((address) => originOf(address))])];
}

/** The folder of the address, because the files of a set are next to its index; nothing above it. */
function sourcesOf(address: string): string[] {
  const [outer = ""] = address.split("::");
  const url = parse(outer);
  if (url === undefined) return [];
  // An export in its own folder has its tokenizer one level above.
  const folder = url.pathname.slice(0, url.pathname.lastIndexOf("/") + 1).replace(/\/onnx\/$/, "/");
  // Separators of the policy syntax must not come from a link.
  const path = folder.replace(/[;,'\s]/g, (character) => encodeURIComponent(character).replace("'", "%27"));
  return [url.origin + path, ...(REDIRECTS[url.hostname] ?? [])];
}

function originOf(address: string): string[] {
  const url = parse(address);
  return url === undefined ? [] : [url.origin];
}

function parse(address: string): URL | undefined {
  try {
    const url = new URL(address, location.href);
    return /^https?:$/.test(url.protocol) ? url : undefined;
  } catch {
    return undefined;
  }
}

function tighten(addresses: readonly string[]): void {
  // `tare serve` lists its folder at the page's own address.
  const listing =
    document.documentElement.dataset["listing"] === undefined ? [] : [location.origin + location.pathname];
  const allowed = [...listing, ...addresses];
  const policy = document.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = `connect-src ${allowed.length === 0 ? "'none'" : allowed.join(" ")}`;
  document.head.append(policy);
}

if (location.protocol !== "file:") {
  tighten(allowedAddresses(location.hash));
  document.documentElement.dataset["started"] = "yes";
}
