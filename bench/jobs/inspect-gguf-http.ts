import { type CommandLine, commandText, nodeCommand, runCapturing, timeRun } from "../child.ts";
import { expectText, shortNames } from "../expect.ts";
import { type BenchContext, fasterRow, type Job, type JobResult, megabytes, milliseconds, type Row } from "../job.ts";
import { makeGgufModel } from "../make/gguf-model.ts";
import { MERGE_COUNT, TOKEN_COUNT } from "../make/vocabulary.ts";
import { interleave, repeat } from "../measure.ts";
import { GGUF_PEER_REMOTE, PEERS_MISSING, peersInstalled } from "../peers.ts";
import { RangeServer, type Tally } from "../serve.ts";

const MOST_REQUESTS = 2;
const TIMES_FASTER = 4;
/** The delay of a reply from a server on the same continent. Only for information. */
const FAR_DELAY = 30;

/** The same header through a range server on loopback, in a separate process. */
export const inspectGgufHttp: Job = {
  name: "inspect-gguf-http",
  title: "the same over HTTP",
  run: runInspectHttp,
};

async function runInspectHttp(context: BenchContext): Promise<JobResult> {
  const file = await context.workspace.file("inspect.gguf", (path) => makeGgufModel(path, "holes"));
  const near = await measureServer(context, file, 0);
  if (!peersInstalled()) return near;
  const far = await measureServer(context, file, FAR_DELAY);
  return { ...near, rows: [...near.rows, ...far.rows.slice(0, 1)] };
}

async function measureServer(context: BenchContext, file: string, delay: number): Promise<JobResult> {
  const { runs, tare, root, workspace } = context;
  const server = await RangeServer.start(file, delay);
  try {
    const ours = nodeCommand(tare, "inspect", server.url);
    const theirs = nodeCommand(GGUF_PEER_REMOTE, server.url);
    const short = [...shortNames(root, workspace), [server.url, "http://127.0.0.1:PORT/inspect.gguf"] as const];
    const oursTally = await countRequests(server, ours, ["llama", "110"]);
    if (!peersInstalled()) {
      const alone = await repeat(runs, () => timeRun(ours));
      const rows = [{ ...place(delay), ours: milliseconds(alone) }, requestsRow(oursTally, undefined)];
      return { rows, commands: [commandText(ours, short)], notes: [PEERS_MISSING] };
    }
    const theirsTally = await countRequests(server, theirs, ["llama", String(TOKEN_COUNT), String(MERGE_COUNT)]);
    const times = await interleave(
      runs,
      () => timeRun(ours),
      () => timeRun(theirs),
    );
    return {
      rows: [
        fasterRow(place(delay), times, delay === 0 ? TIMES_FASTER : undefined),
        requestsRow(oursTally, theirsTally),
        bytesRow(oursTally, theirsTally),
      ],
      commands: [commandText(ours, short), commandText(theirs, short)],
    };
  } finally {
    await server.stop();
  }
}

/** One separate run, so that all counted requests belong to it. It is also the warm-up. */
async function countRequests(server: RangeServer, command: CommandLine, words: readonly string[]): Promise<Tally> {
  await server.take();
  expectText((await runCapturing(command)).stdout, words);
  return server.take();
}

function place(delay: number): { job: string; measure: string } {
  const how = delay === 0 ? "loopback" : `${delay} ms before every reply`;
  return { job: inspectGgufHttp.name, measure: `wall time with Node's start, ${how}` };
}

function requestsRow(ours: Tally, theirs: Tally | undefined): Row {
  return {
    job: inspectGgufHttp.name,
    measure: "requests",
    ours: String(ours.requests),
    theirs: theirs === undefined ? undefined : String(theirs.requests),
    goal: `≤ ${MOST_REQUESTS}`,
    met: ours.requests <= MOST_REQUESTS,
  };
}

function bytesRow(ours: Tally, theirs: Tally): Row {
  return {
    job: inspectGgufHttp.name,
    measure: "bytes sent, with what was under way at the end",
    ours: megabytes(ours.bytes),
    theirs: megabytes(theirs.bytes),
  };
}
