// Node 20 does not run tsx's loader for the first file of a worker, so that it is registered here.
import { register } from "tsx/esm/api";

register();
await import("./worker.ts");
