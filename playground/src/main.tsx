import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import { start } from "./state/sessions.ts";
import "./style/fonts.css";
import "./style/tokens.css";
import "./style/shell.css";
import "./style/thread.css";
import "./style/panel.css";
import "./style/stream.css";

const root = document.querySelector("#root");
if (root)
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
void start();
