/**
 * The parts of undici in use, named statically and loaded on demand: a bundler sees which exports of the CommonJS
 * package are meant, and a run that reads local files never pays for loading it.
 */
export { Agent, ProxyAgent } from "undici";
