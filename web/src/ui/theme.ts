import { useEffect, useState } from 'preact/hooks';

export type Theme = 'light' | 'dark';

// A page in a file may have no storage; then the choice lasts as long as the page.
function stored(): Theme | undefined {
  try {
    const value = localStorage.getItem('vitrine-theme');
    return value === 'light' || value === 'dark' ? value : undefined;
  } catch {
    return undefined;
  }
}

/** What the system wants, until the user says otherwise. */
export function useTheme(): [Theme, () => void] {
  const wanted = matchMedia('(prefers-color-scheme: dark)');
  const [system, setSystem] = useState<Theme>(wanted.matches ? 'dark' : 'light');
  const [own, setOwn] = useState(stored);
  useEffect(() => {
    const changed = () => setSystem(wanted.matches ? 'dark' : 'light');
    wanted.addEventListener('change', changed);
    return () => wanted.removeEventListener('change', changed);
  }, []);
  const theme = own ?? system;
  document.documentElement.dataset.theme = theme;
  const toggle = () => {
    const other = theme === 'dark' ? 'light' : 'dark';
    setOwn(other);
    try {
      localStorage.setItem('vitrine-theme', other);
    } catch {
      // see above
    }
  };
  return [theme, toggle];
}
