type Fields = Readonly<Record<string, unknown>>;

/** Returns why OpenAI's strict mode would reject a schema, by the rules of its documentation. */
export function strictProblem(schema: unknown): string | undefined {
  const root = schema as Fields;
  if (root.type !== "object" || "anyOf" in root) return "the root is no object";
  return problemAt(root, root, "root");
}

const unknownToIt = [
  ...["allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas"],
  ...["patternProperties", "propertyNames", "unevaluatedProperties", "minProperties"],
  ...["maxProperties", "prefixItems", "contains", "uniqueItems", "unevaluatedItems", "default"],
  ...["minLength", "maxLength"],
];

function problemAt(schema: unknown, root: Fields, at: string): string | undefined {
  if (typeof schema !== "object" || schema === null) return `${at} is no schema`;
  const fields = schema as Fields;
  const bad = unknownToIt.find((keyword) => keyword in fields);
  if (bad !== undefined) return `${at}: '${bad}' is not permitted`;
  if (typeof fields.$ref === "string") return refProblem(fields, root, at);
  if (fields.type === undefined && fields.anyOf === undefined) return `${at} must have a type`;
  if ([fields.type].flat().includes("object")) {
    if (fields.additionalProperties !== false) return `${at} must be closed`;
    const wanted = Object.keys(fields.properties ?? {}).toSorted();
    const required = [...((fields.required as string[]) ?? [])].toSorted();
    if (wanted.join() !== required.join()) return `${at} must require every property`;
  }
  if ([fields.type].flat().includes("array") && !fields.items) return `${at} must have items`;
  const below = [
    ...Object.entries(fields.properties ?? {}),
    ...Object.entries(fields.$defs ?? {}),
    ...Object.entries(fields.definitions ?? {}),
    ...Object.entries(fields.anyOf ?? {}),
    ...(fields.items ? [["items", fields.items] as const] : []),
  ];
  for (const [name, one] of below) {
    const problem = problemAt(one, root, `${at}.${name}`);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function refProblem(fields: Fields, root: Fields, at: string): string | undefined {
  if (Object.keys(fields).length > 1) return `${at}: $ref cannot have keywords`;
  const [start, ...path] = String(fields.$ref).split("/");
  let target: unknown = start === "#" ? root : undefined;
  for (const part of path) target = (target as Fields | undefined)?.[part];
  return target === undefined ? `${at}: ${fields.$ref} is not there` : undefined;
}
