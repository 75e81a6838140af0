import { startReader, type WorkerScope } from "./reader.ts";

/** The reader: opens files and works on them apart from the page. What an overview does not need is loaded when asked for. */
startReader(globalThis as unknown as WorkerScope);
