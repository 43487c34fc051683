import type { RefObject } from 'preact';
import { useEffect, useState } from 'preact/hooks';

interface Props {
  value: string;
  set: (value: string) => void;
  label: string;
  placeholder: string;
  invalid?: boolean;
  describedBy?: string;
  input?: RefObject<HTMLInputElement | null>;
}

/** A text that takes effect when typing pauses. Esc clears it, then leaves it. */
export function TypedText({ value, set, label, placeholder, invalid, describedBy, input }: Props) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => set(typed), 150);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <input ref={input} type="text" value={typed} placeholder={placeholder} aria-label={label}
      aria-invalid={invalid} aria-describedby={describedBy} spellcheck={false} autocomplete="off"
      onInput={(event) => setTyped(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Enter') set(typed);
        if (event.key !== 'Escape') return;
        event.preventDefault();
        if (typed === '') event.currentTarget.blur();
        setTyped('');
        set('');
      }} />
  );
}
