// Sets the theme before the first paint.
{
  const chosen = localStorage.getItem("rivulet-theme");
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = chosen ?? (isDark ? "dark" : "light");
}
