import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { eventTables } from "../../scripts/event-tables.ts";
import { routes } from "../../src/app/app.ts";
import { RivuletError } from "../../src/base/error.ts";
import { asyncApi } from "../../src/schema/async-api.ts";
import { statusOf } from "../../src/server/errors.ts";

const page = (name: string) => readFileSync(`docs/protocol/${name}`, "utf8");

it("events.md is the page that the grammar makes", () => {
  expect(page("events.md"), "stale: run npm run generate:schema").toBe(eventTables);
});

describe("http.md", () => {
  const text = page("http.md");
  const rows = Array.from(
    text.matchAll(/^\| `((?:GET|POST|DELETE) [^`]+)` \| (\w+) \|/gm),
    ([, request = "", scope]) => [request, scope],
  );

  it("has a row for every route, with its scope, and no other", () => {
    const served = routes.map(({ method, path, needs }) => [
      `${method} ${path.replace(/:(\w+)(\{\.\+\})?/g, "{$1}")}`,
      needs === "nothing" ? "none" : needs,
    ]);
    expect(rows.toSorted()).toEqual(served.toSorted());
  });

  it.each(routes)(
    "names every field and parameter of $method $path",
    ({ query = {}, body = {} }) => {
      const missing = Object.keys({ ...query, ...body }).filter(
        (name) => !new RegExp(`\`${name}(=\\w+)?\``).test(text),
      );
      expect(missing).toEqual([]);
    },
  );

  it("lists error codes with the status that they have", () => {
    const listed = Array.from(
      text.matchAll(/^\| (\d{3}) \| (.*) \|$/gm),
      ([, status, codes = ""]) =>
        Array.from(
          codes.matchAll(/`(\w+[a-z])`/g),
          ([, code = ""]) => [Number(status), code] as const,
        ),
    ).flat();
    expect(listed.length).toBeGreaterThan(20);
    const known = listed.filter(([, code]) => !code.startsWith("retry"));
    for (const [status, code] of known)
      expect(statusOf(new RivuletError(code, "")), code).toBe(status);
  });
});

it("the AsyncAPI document has the parameters of the route of events", () => {
  const route = routes.find(({ path }) => path === "/v1/tasks/:id/events");
  const bindings = asyncApi.operations.sendTaskEvents?.bindings as
    | { readonly http: { readonly query: { readonly properties: object } } }
    | undefined;
  const properties = bindings?.http.query.properties ?? {};
  expect(Object.keys(properties).sort()).toEqual(Object.keys(route?.query ?? {}).sort());
});
