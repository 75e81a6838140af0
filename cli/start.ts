/** The file that is started. Bundled code imports from main, never from here: it would run a second time. */
void import("./main.ts");
