// Sets the theme before the first paint.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("rivulet-theme");
  } catch {
    // The browser keeps nothing for this page.
  }
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = chosen ?? (isDark ? "dark" : "light");
}
