import { taskStreamSchema } from "../schema/index.ts";
import { objectSchema, type Route, schemaOf } from "./route.ts";

/** The OpenAPI 3.1 document of routes, from the declarations that check the requests. */
export function openApi(routes: readonly Route[], cookieName: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)(\{\.\+\})?/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route, path) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Rivulet", version: "1" },
    paths,
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        cookie: { type: "apiKey", in: "cookie", name: cookieName },
      },
      schemas: {
        Frame: taskStreamSchema,
        Error: {
          type: "object",
          properties: { error: { $ref: "#/components/schemas/Frame/$defs/ErrorShape" } },
          required: ["error"],
        },
      },
    },
  };
}

function operationOf(route: Route, path: string): Record<string, unknown> {
  const { summary, needs, query = {}, body, ignoresUnknown, returns } = route;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const parameters = [
    ...names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })),
    ...Object.entries(query).map(([name, field]) => ({
      ...{ name, in: "query", schema: schemaOf(field), explode: false },
      ...(field.isRequired && { required: true }),
    })),
  ];
  const type = returns.type ?? "application/json";
  const content = returns.status === 204 ? {} : { content: { [type]: {} } };
  return {
    summary,
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: {
        content: { "application/json": { schema: objectSchema(body, ignoresUnknown) } },
      },
    }),
    responses: {
      [returns.status]: { description: returns.description, ...content },
      default: {
        description: "An error.",
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
      },
    },
    ...(needs !== "nothing" && { security: [{ bearer: [] }, { cookie: [] }], "x-scope": needs }),
  };
}
