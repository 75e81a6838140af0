import { startReader, type WorkerScope } from "./reader.ts";

/**
 * The reader: opens files and works on them outside of the page. Code that an overview does not need is loaded on
 * demand.
 */
startReader(globalThis as unknown as WorkerScope);
