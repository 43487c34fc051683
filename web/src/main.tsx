// The page; and the worker of the page, which runs the same script (see client.ts).
import { render } from 'preact';
import { connect, serve } from './client';
import { App } from './ui/app';

async function show(script: string): Promise<void> {
  const root = document.getElementById('app')!;
  render(<p class="empty" role="status">Reading the profile…</p>, root);
  try {
    const element = document.getElementById('profile')!;
    const client = await connect(element.textContent ?? '', script);
    element.remove();  // the text is not needed again, and may be large
    render(<App client={client} />, root);
  } catch (error) {
    render(
      <div class="failed" role="alert">
        <h1>This profile cannot be shown</h1>
        <p>{error instanceof Error ? error.message : String(error)}</p>
      </div>,
      root,
    );
  }
}

if (typeof document === 'undefined') serve();
else void show(document.currentScript!.textContent ?? '');
