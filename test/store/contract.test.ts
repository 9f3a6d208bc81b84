import { storeContract } from "../../src/testing.ts";
import { registerContract } from "../support/contract.ts";
import { createMemoryStore, createSqliteStore } from "./support/create-store.ts";

registerContract("memory store", storeContract(createMemoryStore));
registerContract("SQLite store", storeContract(createSqliteStore));
