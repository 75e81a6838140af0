/** Field numbers of ModelProto and OperatorSetIdProto (onnx.proto). */
export const MODEL = {
  irVersion: 1,
  producerName: 2,
  producerVersion: 3,
  domain: 4,
  modelVersion: 5,
  docString: 6,
  graph: 7,
  opsetImport: 8,
  metadataProps: 14,
  trainingInfo: 20,
  functions: 25,
} as const;
