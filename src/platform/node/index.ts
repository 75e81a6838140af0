export * from "../../index.ts";
