import { describe, expect, expectTypeOf, it } from "vitest";
import { ContextStore, layerContext } from "./context.ts";

class Database {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}
class Replica extends Database {}
abstract class Shape {
  abstract area(): number;
}
class Square extends Shape {
  area() {
    return 4;
  }
}

describe("ContextStore", () => {
  const main = new Database("main");

  it("finds values by key, by type, and by key and type", () => {
    const store = new ContextStore({ db: main, region: "eu" });
    expect(store.get("region")).toBe("eu");
    expect(store.get("db")).toBe(main);
    expect(store.get(Database)).toBe(main);
    expect(store.get("db", Database)).toBe(main);
    expect(store.get("region", Database)).toBeUndefined();
    expect(store.get("none")).toBeUndefined();
    expect(store.get(Replica)).toBeUndefined();
  });

  it("is immutable", () => {
    const store = new ContextStore();
    const more = store.with(main).with("region", "eu");
    expect(store.get(Database)).toBeUndefined();
    expect(store.get("region")).toBeUndefined();
    expect(more.get(Database)).toBe(main);
    expect(more.get("region")).toBe("eu");
  });

  it("is independent of later changes to its source", () => {
    const values: Record<string, unknown> = { region: "eu" };
    const store = new ContextStore(values);
    values.region = "us";
    expect(store.get("region")).toBe("eu");
  });

  it("returns the newest value, and prefers the exact class to a subclass", () => {
    const other = new Database("other");
    expect(new ContextStore().with(main).with(other).get(Database)).toBe(other);
    expect(new ContextStore().with(main).with(new Replica("r")).get(Database)).toBe(main);
    const replica = new Replica("r");
    expect(new ContextStore().with(replica).get(Database)).toBe(replica);
  });

  it("drops a value whose key is set again", () => {
    const store = new ContextStore({ db: main }).with("db", "closed");
    expect(store.get(Database)).toBeUndefined();
    expect(store.get("db")).toBe("closed");
  });

  it("has no values of Object.prototype", () => {
    for (const key of ["constructor", "__proto__", "toString", "with", "get"]) {
      expect(new ContextStore({}).get(key)).toBeUndefined();
    }
  });

  it("infers the type of a value", () => {
    const store = new ContextStore();
    expectTypeOf(store.get(Database)).toEqualTypeOf<Database | undefined>();
    expectTypeOf(store.get("db", Database)).toEqualTypeOf<Database | undefined>();
    expectTypeOf(store.get(Shape)).toEqualTypeOf<Shape | undefined>();
    expectTypeOf(store.get("x")).toEqualTypeOf<unknown>();
    expect(new ContextStore().with(new Square()).get(Shape)?.area()).toBe(4);
  });
});

describe("layerContext", () => {
  const call = { user: "ann" };
  const agent = new ContextStore({ user: "bob", region: "eu" }).with(new Database("agent"));
  const toolkit = { user: "carl", region: "us", unit: "C", db: new Database("toolkit") };
  const context = layerContext(call, agent, toolkit);

  it("prefers the call, then the agent, then the toolkit", async () => {
    expect(await context.get("user")).toBe("ann");
    expect(await context.get("region")).toBe("eu");
    expect(await context.get("unit")).toBe("C");
    expect((await context.get(Database))?.name).toBe("agent");
    expect(await context.get("none")).toBeUndefined();
  });

  it("skips a value of another type", async () => {
    const found = await layerContext({ db: "text" }, toolkit).get("db", Database);
    expect(found?.name).toBe("toolkit");
  });

  it("accepts missing layers and any lookup, also an asynchronous one", async () => {
    const lookup = { get: () => "found" as never };
    expect(await layerContext(undefined, lookup).get("x")).toBe("found");
    expect(await layerContext().get("x")).toBeUndefined();
    const database = {
      get: async <T>(key: unknown) => (key === "user" ? "dora" : undefined) as T | undefined,
    };
    const layered = layerContext(database, agent);
    expect([await layered.get("user"), await layered.get("region")]).toEqual(["dora", "eu"]);
    const broken = { get: () => Promise.reject(new Error("no database")) };
    await expect(layerContext(broken, agent).get("user")).rejects.toThrow("no database");
  });
});
