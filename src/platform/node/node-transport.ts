import { directTransport } from "./direct-transport.ts";
import { type NodeTransport, type NodeTransportOptions, undiciTransport } from "./http-transport.ts";

/** Reads under way at once, at most: short ones that can be merged no further. */
const CONNECTIONS = 32;

/** HTTP for Node: plain downloads over connections of our own, everything else, proxies and redirects too, over undici. */
export function nodeTransport(options: NodeTransportOptions = {}): NodeTransport {
  const { environment, connections = CONNECTIONS } = options;
  return directTransport({ inner: undiciTransport(options), environment, connections });
}
