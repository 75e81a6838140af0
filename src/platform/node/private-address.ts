import { lookup as resolveName } from "node:dns/promises";
import { BlockList, isIP } from "node:net";

/** Names → addresses; injected in tests. */
export type Lookup = (hostname: string) => Promise<readonly string[]>;

/** Loopback, link-local, private use, carrier NAT and their IPv6 relatives (RFC 6890, RFC 4193). */
const PRIVATE = new BlockList();
for (const [network, prefix] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
] as const) {
  PRIVATE.addSubnet(network, prefix, "ipv4");
}
for (const [network, prefix] of [
  ["::", 127],
  ["fc00::", 7],
  ["fe80::", 10],
] as const) {
  PRIVATE.addSubnet(network, prefix, "ipv6");
}

/** True where a host of a URL is this machine or one that only the local network can reach. */
export async function isPrivateHost(host: string, lookup: Lookup = lookupAll): Promise<boolean> {
  const bare = host.replace(/^\[|\]$/g, "");
  if (isIP(bare) !== 0) return isPrivateAddress(bare);
  // A name that cannot be looked up here may still be known to a proxy: that is not ours to judge.
  const addresses = await lookup(bare).catch(() => []);
  return addresses.some(isPrivateAddress);
}

function isPrivateAddress(address: string): boolean {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  const plain = mapped ?? address;
  return PRIVATE.check(plain, isIP(plain) === 6 ? "ipv6" : "ipv4");
}

async function lookupAll(hostname: string): Promise<readonly string[]> {
  return (await resolveName(hostname, { all: true })).map((entry) => entry.address);
}
