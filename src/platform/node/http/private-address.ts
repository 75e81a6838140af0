import { lookup as resolveName } from "node:dns/promises";
import { BlockList, isIP } from "node:net";

/** Names → addresses; injected in tests. */
export type Lookup = (hostname: string) => Promise<readonly string[]>;

/**
 * Addresses that do not lead to one server on the public Internet (RFC 6890 and the registries of IANA): this machine,
 * private and link-local networks, carrier NAT, protocol assignments, benchmarking, multicast, reserved.
 */
const PRIVATE = new BlockList();
for (const [network, prefix] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 3],
] as const) {
  PRIVATE.addSubnet(network, prefix, "ipv4");
}
for (const [network, prefix] of [
  // Unspecified, loopback, and IPv4 written as "::a.b.c.d" (RFC 4291 §2.5.5.1).
  ["::", 96],
  // Translation to IPv4 that a network chooses itself (RFC 8215): the target is unknown outside of it.
  ["64:ff9b:1::", 48],
  ["100::", 64],
  // Protocol assignments, with Teredo (RFC 4380), benchmarking and ORCHID.
  ["2001::", 23],
  ["5f00::", 16],
  ["fc00::", 7],
  ["fe80::", 10],
  ["fec0::", 10],
  ["ff00::", 8],
] as const) {
  PRIVATE.addSubnet(network, prefix, "ipv6");
}

/** The addresses of a URL's host; none if its name cannot be looked up. */
export async function addressesOf(host: string, lookup: Lookup = lookupAll): Promise<readonly string[]> {
  const bare = host.replace(/^\[|\]$/g, "");
  return isIP(bare) === 0 ? lookup(bare).catch(() => []) : [bare];
}

/** True for an address of this machine, or one that only a private network can reach. */
export function isPrivateAddress(address: string): boolean {
  const bare = address.replace(/%.*$/, "");
  if (isIP(bare) === 4) return PRIVATE.check(bare, "ipv4");
  const inside = embeddedIpv4(bare);
  return inside === undefined ? PRIVATE.check(bare, "ipv6") : PRIVATE.check(inside, "ipv4");
}

/** The IPv4 address inside an IPv6 address: mapped, translated by NAT64 (RFC 6052), or carried by 6to4 (RFC 3056). */
function embeddedIpv4(address: string): string | undefined {
  const groups = ipv6Groups(address);
  const [first, second] = groups;
  const at = (index: number): string =>
    [groups[index] ?? 0, groups[index + 1] ?? 0].flatMap((g) => [g >> 8, g & 255]).join(".");
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) return at(6);
  if (first === 0x64 && second === 0xff9b && groups.slice(2, 6).every((group) => group === 0)) return at(6);
  if (first === 0x2002) return at(1);
  return undefined;
}

/** The eight groups of an IPv6 address. */
export function ipv6Groups(address: string): readonly number[] {
  const plain = address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...parts: string[]) => {
    const [a = 0, b = 0, c = 0, d = 0] = parts.slice(0, 4).map(Number);
    return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  });
  const [front = "", back] = plain.split("::");
  const read = (text: string): number[] =>
    text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));
  const [before, after] = [read(front), read(back ?? "")];
  return [...before, ...Array<number>(Math.max(0, 8 - before.length - after.length)).fill(0), ...after];
}

async function lookupAll(hostname: string): Promise<readonly string[]> {
  return (await resolveName(hostname, { all: true })).map((entry) => entry.address);
}
