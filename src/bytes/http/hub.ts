/** The Hugging Face hub, as far as its addresses say what is meant. */

const HOSTS = ["huggingface.co", "hf.co"];

export interface HubSettings {
  /** Another server with the same paths, as HF_ENDPOINT names it. */
  readonly mirror?: string | undefined;
  /** Gets what is opened instead of what was named. */
  readonly onNote?: ((text: string) => void) | undefined;
}

/** True for an address that the user's token of the hub may be sent to. */
export function isHubAddress(address: string, mirror: string | undefined): boolean {
  if (!/^https?:/i.test(address) || !URL.canParse(address)) return false;
  const { protocol, hostname, origin } = new URL(address);
  if (mirror !== undefined && URL.canParse(mirror) && new URL(mirror).origin === origin) return true;
  return protocol === "https:" && HOSTS.some((host) => hostname === host || hostname.endsWith(`.${host}`));
}

/** HF_TOKEN, for the hub and for the mirror of it that HF_ENDPOINT names. */
export function hubHeaders(
  address: string,
  variables: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const token = variables["HF_TOKEN"]?.trim();
  return token && isHubAddress(address, variables["HF_ENDPOINT"]) ? { authorization: `Bearer ${token}` } : {};
}

/** "/OWNER/NAME/blob/REVISION/PATH", with the owner left out for some models, and a kind before it for what is no model. */
const PAGE = /^((?:\/(?:datasets|spaces))?\/[^/]+(?:\/[^/]+)?)\/blob\/([^/]+\/.+)$/;

/** The page of a file on the hub has a button to download it; its address means the file. Any other address stays. */
export function hubFileAddress(address: string, { mirror, onNote }: HubSettings): string {
  if (!isHubAddress(address, mirror)) return address;
  const url = new URL(address);
  const page = url.origin + url.pathname;
  const [, repository, file] = PAGE.exec(url.pathname) ?? [];
  if (repository === undefined) return address;
  url.pathname = `${repository}/resolve/${file}`;
  onNote?.(`${page} is the page of a file; the file itself is read: ${url.origin}${url.pathname}`);
  return url.href;
}
