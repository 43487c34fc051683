import { render } from 'preact';
import { decode } from './data';
import { App } from './ui/app';

const root = document.getElementById('app')!;
root.replaceChildren();
try {
  const element = document.getElementById('profile')!;
  const profile = decode(element.textContent ?? '');
  element.remove();  // the text is not needed again, and may be large
  render(<App profile={profile} />, root);
} catch (error) {
  render(
    <div class="failed" role="alert">
      <h1>This profile cannot be shown</h1>
      <p>{error instanceof Error ? error.message : String(error)}</p>
    </div>,
    root,
  );
}
