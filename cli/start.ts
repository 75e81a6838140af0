/** The start file. Bundled code imports from main, never from here: it would run a second time. */
import("./main.ts").catch((error: unknown) => {
  // For example with too few open files allowed, not even our own code can be read, including the error texts.
  if (!(error instanceof Error && "code" in error && /^E[A-Z0-9]+$/.test(String(error.code)))) throw error;
  process.stderr.write(`tare: Cannot start: ${error.message} [source/io]\n`);
  process.exit(8);
});
