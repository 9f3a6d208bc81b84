export { type AdapterName, type AppOptions, bindAgents, createApp } from "./app.ts";
export { type ServeOptions, type Serving, serve, serveFields } from "./serve.ts";
export { serveMcpStdio } from "./stdio.ts";
