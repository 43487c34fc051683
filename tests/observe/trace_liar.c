// A program whose notes lie, and three honest probes among them. Reads lines:
//   fire N    runs all the code that the notes are about, N times
//   state     tells the semaphores, and whether the code and what surrounds them are as at start
//   page FILE fires liar:text with a string in a page of FILE that has just been mapped
//   out       the same with memory that was paged out
// At start it tells "ready PID".
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// The layout of a SystemTap note, version 3: pc, base, semaphore, provider, name, arguments.
__asm__(
    ".macro lie pc:req, semaphore:req, name:req\n"
    ".pushsection .note.stapsdt,\"\",\"note\"\n"
    ".balign 4\n"
    ".4byte 8, 9992f-9991f, 3\n"
    ".asciz \"stapsdt\"\n"
    "9991: .8byte \\pc, 0, \\semaphore\n"
    ".asciz \"liar\"\n"
    ".asciz \"\\name\"\n"
    ".endm\n"
    ".macro end_lie\n"
    "9992: .balign 4\n"
    ".popsection\n"
    ".endm\n"
    ".macro plain_lie pc:req, semaphore:req, name:req, arguments\n"
    "lie \\pc, \\semaphore, \\name\n"
    ".asciz \"\\arguments\"\n"
    "end_lie\n"
    ".endm\n");

uint16_t honest_semaphore __attribute__((section(".probes"), used)) = 0;
uint16_t around[4] __attribute__((section(".probes"), used)) = {0x5a5a, 0x5a5a, 0x5a5a, 0x5a5a};
const uint64_t constant __attribute__((used)) = 0;
void (*const in_relro)(void) __attribute__((section(".data.rel.ro"), used)) = (void (*)(void))0;

// int liar_code(int number, const char* text)
__asm__(
    ".text\n"
    ".globl liar_code, liar_begin, liar_end\n"
    ".type liar_code, @function\n"
    "liar_code:\n"
    "liar_begin:\n"
    "1: nop\n"
    "plain_lie 1b, 0, first, \"-4@%edi 8@%rsi\"\n"
    "2: nop\n"
    "plain_lie 2b, honest_semaphore, counted, \"-4@%edi\"\n"
    "3: mov $0x11223344, %eax\n"
    "plain_lie 3b+2, 0, middle, \"-4@%edi\"\n"
    "plain_lie 3b, 0, no_nop, \"-4@%edi\"\n"
    "plain_lie around, 0, in_data, \"-4@%edi\"\n"
    "plain_lie 0x7000000000000000, 0, nowhere, \"-4@%edi\"\n"
    "4: nop\n"
    "plain_lie 4b, 0x7000000000000000, sem_nowhere, \"-4@%edi\"\n"
    "5: nop\n"
    "plain_lie 5b, around+1, sem_odd, \"-4@%edi\"\n"
    "6: nop\n"
    "plain_lie 6b, liar_code, sem_in_text, \"-4@%edi\"\n"
    "7: nop\n"
    "plain_lie 7b, in_relro, sem_in_relro, \"-4@%edi\"\n"
    "8: nop\n"
    "lie 8b, 0, long\n"
    ".ascii \"-4@%edi \"\n"
    ".rept 10000\n"
    ".ascii \"x\"\n"
    ".endr\n"
    ".byte 0\n"
    "end_lie\n"
    "9: nop\n"
    "plain_lie 9b, 0, unbalanced, \"-4@%edi -8@((%rsp 8@)( 4@$\"\n"
    "10: nop\n"
    "lie 10b, 0, many\n"
    ".rept 10000\n"
    ".ascii \"-4@%edi \"\n"
    ".endr\n"
    ".byte 0\n"
    "end_lie\n"
    "11: nop\n"
    "plain_lie 11b, 0, twice, \"-4@%edi\"\n"
    "plain_lie 11b, 0, twice, \"-4@%edi\"\n"
    "plain_lie 11b, 0, thrice, \"-4@%edi\"\n"
    "12: nop\n"
    "plain_lie 12b, 0, last, \"-4@%edi\"\n"
    "ret\n"
    "liar_end:\n"
    ".size liar_code, .-liar_code\n"
    ".globl liar_text\n"
    ".type liar_text, @function\n"
    "liar_text:\n"
    "13: nop\n"
    "plain_lie 13b, 0, text, \"8@%rdi\"\n"
    "ret\n");

extern int liar_code(int number, const char* text);
extern void liar_text(const char* text);
extern const unsigned char liar_begin[];
extern const unsigned char liar_end[];

static unsigned char code_at_start[4096];

static int is_as_at_start(void) {
  const size_t size = (size_t)(liar_end - liar_begin);
  for (int i = 0; i < 4; ++i)
    if (((volatile uint16_t*)around)[i] != 0x5a5a) return 0;
  return *(void* const volatile*)&in_relro == NULL && *(volatile const uint64_t*)&constant == 0 &&
         memcmp(code_at_start, liar_begin, size) == 0;
}

static const size_t mapped_bytes = 1 << 20;
static const size_t text_at = 700 * 1024 + 4090;  // over the edge of a page

static void fire_of_file(const char* path) {
  const int file = open(path, O_RDONLY);
  char* const text = mmap(NULL, mapped_bytes, PROT_READ, MAP_PRIVATE, file, 0);
  // Neither in our page tables nor in the page cache.
  madvise(text, mapped_bytes, MADV_RANDOM);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  unsigned char there[256] = {0};
  mincore(text, mapped_bytes, there);
  liar_text(text + text_at);
  printf("page %d\n", there[text_at / 4096] & 1);
  munmap(text, mapped_bytes);
  close(file);
}

static void fire_of_paged_out(void) {
  char* const text =
      mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(text + text_at, "paged out and back");
  const int told = madvise(text, mapped_bytes, MADV_PAGEOUT);
  liar_text(text + text_at);
  printf("out %d\n", told);
  munmap(text, mapped_bytes);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  memcpy(code_at_start, liar_begin, (size_t)(liar_end - liar_begin));
  printf("ready %d\n", getpid());
  char line[4096];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = '\0';
    if (!strncmp(line, "fire ", 5)) {
      int well = 1;
      for (int i = 0; i < atoi(line + 5); ++i) well &= liar_code(i, "text") == 0x11223344;
      printf("fire %s\n", well ? "well" : "broken");
    } else if (!strcmp(line, "state")) {
      printf("state %u %s\n", *(volatile uint16_t*)&honest_semaphore,
             is_as_at_start() ? "clean" : "changed");
    } else if (!strncmp(line, "page ", 5)) {
      fire_of_file(line + 5);
    } else if (!strcmp(line, "out")) {
      fire_of_paged_out();
    }
  }
  return 0;
}
